//! The fuzz target `checkpoint`: a checkpoint file whose every byte the input decides,
//! except checksums, beside an empty log.
//!
//! ```text
//!  count, (offset, byte) …     changes of the header, which then gets its checksum
//!  count, (offset, byte) …     likewise of the end
//!  count, (offset, byte) …     likewise of the index
//!  then blocks:
//!    storage first records length bytes
//! ```

use std::path::Path;

use coeval_types::{Lsn, Term, Timestamp};

use super::directory::{DIRECTORY, FIRST, HEADER_BYTES, Input, database, made, stamp, start};

const END_BYTES: usize = 128;
const BLOCK_HEADER_BYTES: usize = 32;
const MAX_BLOCKS: usize = 16;

/// A stamped block of zeros with these fields, of the format version of `control`.
fn stamped(magic: &[u8; 8], control: &[u8], bytes: usize, fields: &[&[u8]]) -> Vec<u8> {
    let mut block = magic.to_vec();
    block.extend_from_slice(&control[8..12]);
    block.extend_from_slice(&[0; 4]);
    fields
        .iter()
        .for_each(|field| block.extend_from_slice(field));
    block.resize(bytes, 0);
    block
}

/// A block at this offset of the file, and its entry in the index.
fn block(seed: u32, at: u64, input: &mut Input<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let storage = u32::from(input.byte()?).to_le_bytes();
    // Also the largest row ids.
    let first = match input.byte()? {
        high @ 250.. => u64::MAX - u64::from(255 - high),
        low => u64::from(low),
    };
    let records = u32::from(input.byte()?).to_le_bytes();
    let contents = input.bytes()?;
    let length = (contents.len() as u32).to_le_bytes();
    let mut block = vec![0; 4];
    block.extend_from_slice(&length);
    block.extend_from_slice(&at.to_le_bytes());
    block.extend_from_slice(&storage);
    block.extend_from_slice(&records);
    block.extend_from_slice(&first.to_le_bytes());
    assert_eq!(block.len(), BLOCK_HEADER_BYTES);
    block.extend_from_slice(contents);
    let crc = crc32c::crc32c_append(seed, &block[4..]);
    block[..4].copy_from_slice(&crc.to_le_bytes());
    let mut entry = at.to_le_bytes().to_vec();
    entry.extend_from_slice(&length);
    entry.extend_from_slice(&storage);
    entry.extend_from_slice(&records);
    entry.extend_from_slice(&first.to_le_bytes());
    entry.resize(32, 0);
    Some((block, entry))
}

/// Runs one input.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let mut files = made();
    let control = files.iter().find(|(path, _)| path.ends_with("CONTROL"));
    let control = control.expect("a new log has a control file").1.clone();
    let database = database(&files);
    // The snapshot right before the log's first byte.
    let snapshot = Timestamp::new(Term(0), Lsn(FIRST - 8))
        .to_bits()
        .to_le_bytes();

    let fields: [&[u8]; 3] = [&database, &snapshot, &FIRST.to_le_bytes()];
    let mut file = stamped(b"COEVALCP", &control, HEADER_BYTES, &fields);
    input.change(&mut file);
    stamp(&mut file);
    // Computed from the header's changed fields.
    let seed = crc32c::crc32c_append(crc32c::crc32c(&file[16..32]), &file[32..40]);

    let mut change_of_end = [0; 17];
    let mut change_of_index = [0; 17];
    for change in [&mut change_of_end, &mut change_of_index] {
        let count = input.byte().unwrap_or_default() % 8;
        change[0] = count;
        for byte in &mut change[1..1 + 2 * usize::from(count)] {
            *byte = input.byte().unwrap_or_default();
        }
    }
    let (mut index, mut records) = (Vec::new(), 0);
    for _ in 0..MAX_BLOCKS {
        let Some((block, entry)) = block(seed, file.len() as u64, &mut input) else {
            break;
        };
        records += u64::from(block[20]);
        file.extend(block);
        index.extend(entry);
    }
    let blocks = index.len() as u64 / 32;
    Input(&change_of_index).change(&mut index);
    let index_at = file.len() as u64;
    let index_crc = crc32c::crc32c_append(seed, &index);
    let fields: [&[u8]; 5] = [
        &file[32..40],
        &index_at.to_le_bytes(),
        &blocks.to_le_bytes(),
        &records.to_le_bytes(),
        &index_crc.to_le_bytes(),
    ];
    let mut end = stamped(b"COEVALCE", &control, END_BYTES, &fields);
    Input(&change_of_end).change(&mut end);
    stamp(&mut end);
    file.extend(index);
    file.extend(end);

    let name = format!("{FIRST:020}.checkpoint");
    files.push((Path::new(DIRECTORY).join("checkpoints").join(name), file));
    start(files);
}
