//! Tests: entries that are built and decoded, and the payloads of frames.

use coeval_types::RowBuilder;
use proptest::prelude::*;

use super::builder::KEPT;
use super::*;

#[derive(Clone, Debug)]
enum Owned {
    Image(u32, u64, Vec<Option<Vec<u8>>>),
    Patch(u32, u64, u32, u64, Vec<u8>),
    Delete(u32, u64),
}

fn owned() -> impl Strategy<Value = Owned> {
    let cells = prop::collection::vec(
        prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
        0..6,
    );
    prop_oneof![
        (any::<u32>(), any::<u64>(), cells).prop_map(|(s, r, c)| Owned::Image(s, r, c)),
        (
            any::<u32>(),
            any::<u64>(),
            0..=Term::MAX.0,
            0..1_u64 << 44,
            prop::collection::vec(any::<u8>(), 0..40),
        )
            .prop_map(|(s, r, t, o, p)| Owned::Patch(s, r, t, o * 8, p)),
        (any::<u32>(), any::<u64>()).prop_map(|(s, r)| Owned::Delete(s, r)),
    ]
}

fn row_of(cells: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut row = RowBuilder::new();
    for cell in cells {
        row.push(cell.as_deref());
    }
    let mut bytes = Vec::new();
    row.finish(&mut bytes);
    bytes
}

#[test]
fn buffers_of_a_large_transaction_are_given_back() {
    let mut builder = EntryBuilder::new(1 << 20);
    let bytes = row_of(&[Some(vec![1; 10_000])]);
    for rid in 0..1000 {
        builder.image(StorageId(1), Rid(rid), RowRef::trusted(&bytes));
    }
    assert!(builder.capacity() > 1000 * bytes.len());
    builder.clear();
    assert!(builder.is_empty());
    assert!(builder.capacity() <= 2 * KEPT);

    // Deferred rows count towards the frame, and take next to no memory here.
    for number in 0..10_000 {
        builder.image_to_come(StorageId(1), Rid(7), number, bytes.len());
    }
    assert!(builder.len() > 10_000 * bytes.len());
    assert!(builder.capacity() < 100 * 10_000);
    builder.clear();
    assert_eq!((builder.len(), builder.is_empty()), (0, true));
    assert!(builder.capacity() <= 3 * KEPT);
}

fn add(builder: &mut EntryBuilder, entry: &Owned) {
    match entry {
        Owned::Image(storage, rid, cells) => {
            let bytes = row_of(cells);
            builder.image(StorageId(*storage), Rid(*rid), RowRef::trusted(&bytes));
        }
        Owned::Patch(storage, rid, term, lsn, patch) => builder.patch(
            StorageId(*storage),
            Rid(*rid),
            Timestamp::new(Term(*term), Lsn(*lsn)),
            patch,
        ),
        Owned::Delete(storage, rid) => builder.delete(StorageId(*storage), Rid(*rid)),
    }
}

/// Adds the entry without copying: an image's row is deferred under this number, a patch
/// is built in place.
fn note(builder: &mut EntryBuilder, number: usize, entry: &Owned) {
    match entry {
        Owned::Image(storage, rid, cells) => {
            let length = row_of(cells).len();
            builder.image_to_come(StorageId(*storage), Rid(*rid), number, length);
        }
        Owned::Patch(storage, rid, term, lsn, patch) => {
            let previous = Timestamp::new(Term(*term), Lsn(*lsn));
            // A patch that is given up leaves nothing in the buffer.
            let given_up = |out: &mut Vec<u8>| {
                out.extend_from_slice(patch);
                false
            };
            assert!(!builder.patch_with(StorageId(*storage), Rid(*rid), previous, given_up));
            let made = |out: &mut Vec<u8>| {
                out.extend_from_slice(patch);
                true
            };
            assert!(builder.patch_with(StorageId(*storage), Rid(*rid), previous, made));
        }
        Owned::Delete(..) => add(builder, entry),
    }
}

/// The bytes of a payload, concatenated.
fn gathered(payload: Payload<'_>, rows: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    payload.visit(
        |number| &rows[number],
        |piece| bytes.extend_from_slice(piece),
    );
    assert_eq!(bytes.len(), payload.len());
    bytes
}

fn check(item: Item<'_>, entry: &Owned) -> Result<(), TestCaseError> {
    match (item, entry) {
        (Item::Entry(Entry::Image { storage, rid, row }), Owned::Image(s, r, cells)) => {
            prop_assert_eq!((storage.0, rid.0), (*s, *r));
            prop_assert!(row.cells().eq(cells.iter().map(Option::as_deref)));
        }
        (
            Item::Entry(Entry::Patch {
                storage,
                rid,
                previous,
                patch,
            }),
            Owned::Patch(s, r, term, lsn, p),
        ) => {
            prop_assert_eq!((storage.0, rid.0), (*s, *r));
            prop_assert_eq!(previous, Timestamp::new(Term(*term), Lsn(*lsn)));
            prop_assert_eq!(patch, &p[..]);
        }
        (Item::Entry(Entry::Delete { storage, rid }), Owned::Delete(s, r)) => {
            prop_assert_eq!((storage.0, rid.0), (*s, *r));
        }
        (item, entry) => prop_assert!(false, "{item:?} for {entry:?}"),
    }
    Ok(())
}

proptest! {
    #[test]
    fn entries_come_back_whole_or_in_chunks(
        entries in prop::collection::vec(owned(), 0..30),
        limit in 1..2000_usize,
    ) {
        let mut builder = EntryBuilder::new(limit);
        for entry in &entries {
            add(&mut builder, entry);
        }
        let mut chunks = Vec::new();
        while let Some(chunk) = builder.next_chunk() {
            chunks.push(gathered(chunk, &[]));
            builder.chunk_sent(Lsn(chunks.len() as u64 * 8));
        }
        // Reassembled, with each chunk in place of its reference.
        let mut whole = Vec::new();
        let payload = gathered(builder.commit_payload(), &[]);
        let mut rest = &payload[..];
        for number in 1..=chunks.len() as u64 {
            prop_assert_eq!(take_item(&mut rest), Ok(Item::Chunk(Lsn(number * 8))));
            whole.extend_from_slice(&chunks[number as usize - 1]);
        }
        whole.extend_from_slice(rest);
        let mut rest = &whole[..];
        for entry in &entries {
            let mut skimmed = rest;
            let skim = skim_item(&mut skimmed).unwrap();
            let item = take_item(&mut rest).unwrap();
            prop_assert_eq!(rest, skimmed, "both pass over the same bytes");
            let Item::Entry(taken) = item else { panic!() };
            prop_assert_eq!(skim, Skimmed::Entry(taken.record().0, taken.record().1));
            check(item, entry)?;
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn rows_to_come_make_the_payloads_that_copies_make(
        entries in prop::collection::vec((owned(), any::<bool>()), 0..30),
        limit in 1..2000_usize,
    ) {
        let (mut copied, mut noted) = (EntryBuilder::new(limit), EntryBuilder::new(limit));
        let mut rows = Vec::new();
        for (entry, to_come) in &entries {
            add(&mut copied, entry);
            if *to_come {
                note(&mut noted, rows.len(), entry);
            } else {
                add(&mut noted, entry);
            }
            rows.push(match entry {
                Owned::Image(_, _, cells) => row_of(cells),
                _ => Vec::new(),
            });
            prop_assert_eq!(noted.len(), copied.len());
            prop_assert_eq!(noted.longest_part(), copied.longest_part());
            prop_assert_eq!(noted.is_empty(), copied.is_empty());
        }
        let mut sent = 0;
        while let Some(chunk) = copied.next_chunk() {
            let other = noted.next_chunk().expect("cut in the same places");
            prop_assert_eq!(gathered(other, &rows), gathered(chunk, &[]));
            sent += 1;
            for builder in [&mut copied, &mut noted] {
                builder.chunk_sent(Lsn(sent * 1000));
            }
        }
        prop_assert!(noted.next_chunk().is_none());
        prop_assert_eq!(noted.commit_frame_bytes(), copied.commit_frame_bytes());
        prop_assert_eq!(
            gathered(noted.commit_payload(), &rows),
            gathered(copied.commit_payload(), &[])
        );
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..60),
        tag in 0..6_u8,
    ) {
        if let Some(first) = bytes.first_mut() {
            *first = tag;
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() && take_item(&mut rest).is_ok() {}
        let mut rest = &bytes[..];
        while !rest.is_empty() && skim_item(&mut rest).is_ok() {}
    }
}

#[test]
fn a_patch_of_any_length_stands_behind_it() {
    for length in [0, 1, 127, 128, 129, 16_383, 16_384, 70_000] {
        let mut builder = EntryBuilder::new(1 << 20);
        let patch: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let before = Owned::Delete(1, 2);
        let entry = Owned::Patch(3, 4, 5, 800, patch);
        add(&mut builder, &before);
        note(&mut builder, 0, &entry);
        add(&mut builder, &before);
        let bytes = gathered(builder.commit_payload(), &[]);
        let mut rest = &bytes[..];
        for expected in [&before, &entry, &before] {
            check(take_item(&mut rest).unwrap(), expected).unwrap();
        }
        assert!(rest.is_empty());
    }
}

#[test]
fn parts_keep_to_the_limit_unless_one_entry_is_longer() {
    let mut builder = EntryBuilder::new(30);
    for rid in 0..50 {
        builder.patch(StorageId(1), Rid(rid), Timestamp::ZERO, &[7; 3]);
    }
    assert!(builder.longest_part() <= 30);
    builder.patch(StorageId(1), Rid(9), Timestamp::ZERO, &[7; 100]);
    assert!(builder.longest_part() > 100);
    builder.clear();
    assert!(builder.is_empty());
    assert_eq!(builder.commit_frame_bytes(), 32);
}
