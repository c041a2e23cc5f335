//! The file BACKUP: lines of text, a name and values each, and a checksum of them at the end.

use coeval_peers::ClusterId;

use crate::timestamp::Epoch;

const FIRST_LINE: &str = "coeval epoch backup 1";

/// One file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name in the directory.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// CRC32C of its bytes, but for its own at the end.
    pub checksum: u32,
    /// Versions in it.
    pub versions: usize,
}

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The cluster that it is of.
    pub cluster: ClusterId,
    /// The closed epoch at whose end it shows every key.
    pub epoch: Epoch,
    /// Partitions of that cluster.
    pub partitions: usize,
    /// Copies that each partition was to have.
    pub copies: u8,
    /// Children of a front end in the barrier's tree.
    pub degree: u8,
    /// Past epochs that could be read.
    pub history_epochs: u64,
    /// The files.
    pub parts: Vec<Part>,
}

impl Manifest {
    /// Versions in all files.
    #[must_use]
    pub fn versions(&self) -> usize {
        self.parts.iter().map(|part| part.versions).sum()
    }

    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// The file's text.
    #[must_use]
    pub fn lines(&self) -> String {
        let mut lines = format!(
            "{FIRST_LINE}\ncluster {}\nepoch {}\npartitions {}\ncopies {}\ndegree {}\n\
             history_epochs {}\n",
            self.cluster,
            self.epoch,
            self.partitions,
            self.copies,
            self.degree,
            self.history_epochs,
        );
        for part in &self.parts {
            lines.push_str(&format!(
                "file {} {} {:08x} {}\n",
                part.name, part.bytes, part.checksum, part.versions
            ));
        }
        let sum = crc32c::crc32c(lines.as_bytes());
        lines.push_str(&format!("checksum {sum:08x}\n"));
        lines
    }

    /// A number that tells this backup from any other.
    #[must_use]
    pub fn mark(&self) -> u32 {
        crc32c::crc32c(self.lines().as_bytes())
    }

    /// The manifest of a file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(bytes: &[u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is no text")?;
        let ends = text.rsplit_once("checksum ");
        let (lines, sum) = ends.ok_or("it has no checksum at the end")?;
        if format!("{:08x}\n", crc32c::crc32c(lines.as_bytes())) != sum {
            return Err("its checksum is another");
        }
        let mut lines = lines.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err("it is of another format");
        }
        let mut value = |name: &str| {
            let line = lines.next().and_then(|line| line.split_once(' '));
            let named = line.filter(|(found, _)| *found == name);
            named.map(|(_, value)| value).ok_or("a line is missing")
        };
        let cluster = value("cluster")?;
        let mut number = |name| {
            let number: Result<u64, _> = value(name)?.parse();
            number.map_err(|_| "a number is none")
        };
        let epoch = number("epoch")?;
        let [partitions, copies, degree, history_epochs] =
            ["partitions", "copies", "degree", "history_epochs"].map(&mut number);
        let small = |number: u64| u8::try_from(number).map_err(|_| "a number is too high");
        Ok(Self {
            cluster: cluster.parse().map_err(|_| "the cluster is none")?,
            epoch: Some(Epoch(epoch))
                .filter(|epoch| epoch.0 < Epoch::LIMIT)
                .ok_or("a number is too high")?,
            partitions: usize::try_from(partitions?).map_err(|_| "a number is too high")?,
            copies: small(copies?)?,
            degree: small(degree?)?,
            history_epochs: history_epochs?,
            parts: lines.map(part).collect::<Result<_, _>>()?,
        })
    }
}

fn part(line: &str) -> Result<Part, &'static str> {
    let words: Vec<&str> = line.split(' ').collect();
    let ["file", name, bytes, checksum, versions] = words[..] else {
        return Err("a line is none of a file");
    };
    // A name that leads out of the directory is none that a backup gives.
    let digits = name.strip_prefix("versions-").unwrap_or_default();
    if digits.len() < 6 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("a file has a name that no backup gives");
    }
    Ok(Part {
        name: name.to_owned(),
        bytes: bytes.parse().map_err(|_| "a number is none")?,
        checksum: u32::from_str_radix(checksum, 16).map_err(|_| "a number is none")?,
        versions: versions.parse().map_err(|_| "a number is none")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_comes_back_and_a_changed_one_is_refused() {
        let part = |number: u64| Part {
            name: format!("versions-{number:06}"),
            bytes: 100 * number,
            checksum: 0xabc,
            versions: 7,
        };
        let manifest = Manifest {
            cluster: ClusterId(7),
            epoch: Epoch(41),
            partitions: 6,
            copies: 2,
            degree: 0,
            history_epochs: 1000,
            parts: vec![part(1), part(2)],
        };
        assert_eq!((manifest.versions(), manifest.bytes()), (14, 300));
        let text = manifest.lines();
        assert_eq!(Manifest::read(text.as_bytes()), Ok(manifest.clone()));
        for index in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[index] ^= 1;
            Manifest::read(&bytes).unwrap_err();
            Manifest::read(&text.as_bytes()[..index]).unwrap_err();
        }
        let mut outside = manifest;
        outside.parts[0].name = "versions-../../a".to_owned();
        Manifest::read(outside.lines().as_bytes()).unwrap_err();
    }
}
