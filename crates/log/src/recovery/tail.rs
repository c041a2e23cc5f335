//! What is behind the end of the log: judged, then repaired. The rules are in the
//! module above.

use coeval_memory::ring::AppendRing;
use coeval_types::{Lsn, Timestamp};

use crate::Error;
use crate::control::Control;
use crate::frame::{HEADER_BYTES, Header, Seed};
use crate::recovery::chain::Chain;
use crate::recovery::scan::Scan;
use crate::segment::SegmentKind;

/// How much is looked at, or written, at once.
const WINDOW_BYTES: usize = 1 << 20;

/// What is behind the end of a log that may be opened.
#[derive(Debug)]
pub(crate) struct Tail {
    /// End of the last word that is not zero; the log's end when all are.
    pub(crate) written_end: Lsn,
    /// Where the first segment begins that lies wholly behind the log's end and is
    /// not all zeros.
    first_written_spare: Option<Lsn>,
}

/// Looks at everything behind the scan's end, and refuses if any of it says that
/// what stood there had been durable.
pub(crate) async fn judge(
    chain: &Chain,
    control: &Control,
    seed: Seed,
    scan: &Scan,
) -> Result<Tail, Error> {
    let end = scan.end;
    if end
        < control
            .start
            .max(control.clean_end.unwrap_or(control.start))
    {
        return Err(chain.damaged(
            end,
            format!(
                "{}, and CONTROL says that the log was durable further than this",
                scan.stopped_by.describe()
            ),
        ));
    }
    // Nothing was written behind an orderly end but by a start, which makes itself known in
    // CONTROL first. (A restore may leave log there, of terms that are known.)
    if scan.clean
        && let Some(header) = frame_at(chain, end, seed).await?
        && header.timestamp.term() > control.term
    {
        return Err(chain.damaged(
            end,
            format!(
                "the log goes on in term {}, but CONTROL says that it was closed here in term \
                 {}: it is older than the log",
                header.timestamp.term(),
                control.term
            ),
        ));
    }
    let mut tail = Tail {
        written_end: end,
        first_written_spare: None,
    };
    let mut window = Vec::new();
    let mut start = end;
    while start < chain.end() {
        window.clear();
        chain.read(start, WINDOW_BYTES, &mut window).await?;
        for (at, word) in window.chunks_exact(Lsn::ALIGNMENT as usize).enumerate() {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            if word == 0 {
                continue;
            }
            let lsn = Lsn(start.0 + at as u64 * Lsn::ALIGNMENT);
            tail.written_end = Lsn(lsn.0 + Lsn::ALIGNMENT);
            let segment = chain.segment(lsn).first;
            if segment >= end {
                tail.first_written_spare.get_or_insert(segment);
            }
            // A frame's second word is its stamp.
            let Some(frame) = lsn.0.checked_sub(Lsn::ALIGNMENT).map(Lsn) else {
                continue;
            };
            if !scan.clean
                && frame > end
                && word == Timestamp::new(control.term, frame).to_bits()
                && let Some(header) = frame_at(chain, frame, seed).await?
                && header.durable > end
            {
                return Err(chain.damaged(
                    end,
                    format!(
                        "{}, and the frame at {} of {} proves that the log was durable up to {}",
                        scan.stopped_by.describe(),
                        chain.segment(frame).offset(frame),
                        chain.segment(frame).path.display(),
                        header.durable
                    ),
                ));
            }
        }
        start = Lsn(start.0 + window.len() as u64);
    }
    Ok(tail)
}

/// The frame at `lsn`, if there is a valid one.
async fn frame_at(chain: &Chain, lsn: Lsn, seed: Seed) -> Result<Option<Header>, Error> {
    let mut bytes = Vec::new();
    chain.read(lsn, HEADER_BYTES, &mut bytes).await?;
    let Some(Ok(header)) = bytes
        .first_chunk()
        .map(|head| Header::decode(head, lsn, seed))
    else {
        return Ok(None);
    };
    if header.frame_bytes() > AppendRing::MAX_REGION {
        return Ok(None);
    }
    bytes.clear();
    chain
        .read(lsn, header.frame_bytes() as usize, &mut bytes)
        .await?;
    Ok(Header::parse(&bytes, lsn, seed)
        .ok()
        .map(|(header, _)| header))
}

/// Makes what was read durable, and clears what is behind it.
pub(crate) async fn repair(
    chain: &mut Chain,
    kind: &SegmentKind,
    control: &Control,
    scan: &Scan,
    tail: &Tail,
) -> Result<(), Error> {
    let end = scan.end;
    let proved = scan.durable.max(control.start);
    if !scan.clean && proved < end {
        let mut window = Vec::new();
        for segment in chain.segments(proved, end) {
            let mut start = segment.first.max(proved);
            let until = segment.end.min(end);
            while start < until {
                let count = (until.0 - start.0).min(WINDOW_BYTES as u64) as usize;
                window.resize(count, 0);
                segment.read(start, &mut window).await?;
                segment.write(start, &window).await?;
                start.0 += count as u64;
            }
            segment.sync().await?;
        }
    }
    if tail.written_end > end {
        tracing::warn!(
            bytes = tail.written_end.0 - end.0,
            end = end.0,
            "cutting off the end of the log: it was being written when the process ended, and \
             nothing in it was acknowledged"
        );
        let last = chain.segment(end);
        let until = last.end.min(tail.written_end);
        let zeros = vec![0; WINDOW_BYTES];
        let mut start = end;
        while start < until {
            let count = (until.0 - start.0).min(WINDOW_BYTES as u64);
            last.write(start, &zeros[..count as usize]).await?;
            start.0 += count;
        }
        last.sync().await?;
    }
    if let Some(first) = tail.first_written_spare {
        chain.remove_from(first, kind).await?;
    }
    Ok(())
}
