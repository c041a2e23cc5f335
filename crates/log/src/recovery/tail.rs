//! The log's tail: classifies the bytes after the log's end as torn writes or damage, and
//! repairs a torn tail. The rules are in the module above.

use coeval_memory::ring::AppendRing;
use coeval_types::{Lsn, Timestamp};

use crate::Error;
use crate::control::Control;
use crate::frame::{HEADER_BYTES, Header, Seed};
use crate::recovery::chain::Chain;
use crate::recovery::scan::Scan;
use crate::segment::SegmentKind;

/// Bytes that are read, or written, at once.
const WINDOW_BYTES: usize = 1 << 20;

/// The bytes after the end of a log that may be opened.
#[derive(Debug)]
pub(crate) struct Tail {
    /// End of the last nonzero word; the log's end when all words are zero.
    pub(crate) written_end: Lsn,
    /// Log offset of the first segment that lies wholly after the log's end and is not all
    /// zeros.
    first_written_spare: Option<Lsn>,
}

/// Scans everything after the log's end, and refuses to open the log if any of it shows
/// that the bytes at the end had been durable.
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
    // After an orderly end only a later start writes, and that start first raises the term
    // in CONTROL. (A restore may leave log there, of known terms.)
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
            // A frame's second word is its timestamp.
            let Some(frame) = lsn.0.checked_sub(Lsn::ALIGNMENT).map(Lsn) else {
                continue;
            };
            if !scan.clean
                && control.member.is_none()
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
    if control.member.is_some() && !scan.clean {
        judge_order(chain, seed, scan, &tail).await?;
    }
    Ok(tail)
}

/// Checks the log of a cluster's node: refuses if the bytes after its end show that the
/// bytes at the end had been durable. Durable offsets in frames refer to another node's
/// disk; but a node writes to a segment only when everything before it is durable:
///
/// ```text
///            p                    |  a segment with data in it
///   frame    ?????  frame         |  ######     damage: whole frames before it
///   frame    ?????????????????????|??????       a frame that crosses may be torn
/// ```
async fn judge_order(chain: &Chain, seed: Seed, scan: &Scan, tail: &Tail) -> Result<(), Error> {
    let end = scan.end;
    // The last segment with data in it that begins after the end.
    let written = Lsn(tail.written_end.0.saturating_sub(Lsn::ALIGNMENT));
    let written = chain.segment(written.max(end));
    if tail.written_end <= end || written.first <= end {
        return Ok(());
    }
    let mut head = Vec::new();
    chain.read(end, HEADER_BYTES, &mut head).await?;
    let reach = match head.first_chunk() {
        Some(head) => Header::decode(head, end, seed).map(|header| header.end()),
        None => return Ok(()),
    };
    let mut is_damage = reach.unwrap_or(Lsn(end.0 + HEADER_BYTES as u64)) <= written.first;
    // Its length field may be damaged. If the frame does not cross the boundary, other
    // frames start after it.
    let (mut at, mut window) = (Lsn(end.0 + Lsn::ALIGNMENT), Vec::new());
    while !is_damage && at < written.first {
        window.clear();
        let count = (written.first.0 - at.0).min(WINDOW_BYTES as u64) as usize;
        chain.read(at, count, &mut window).await?;
        for word in window.chunks_exact(Lsn::ALIGNMENT as usize) {
            // A frame's second word is its timestamp.
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            let frame = Lsn(at.0 - Lsn::ALIGNMENT);
            is_damage |= frame > end
                && Timestamp::from_bits(word).lsn() == frame
                && frame_at(chain, frame, seed).await?.is_some();
            at.0 += Lsn::ALIGNMENT;
        }
    }
    if !is_damage {
        return Ok(());
    }
    Err(chain.damaged(
        end,
        format!(
            "{}, and {} is written, so the log was durable up to there",
            scan.stopped_by.describe(),
            written.path.display()
        ),
    ))
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

/// Makes the log that was read durable, and clears the bytes after it.
pub(crate) async fn repair(
    chain: &mut Chain,
    kind: &SegmentKind,
    control: &Control,
    scan: &Scan,
    tail: &Tail,
) -> Result<(), Error> {
    let end = scan.end;
    let proved = scan.durable.max(control.start);
    if !scan.clean {
        rewrite(chain, proved, end).await?;
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
    // A segment with which a term begins that is no part of this log; a restore may leave
    // one.
    let of_term = chain.term_behind(end);
    let first = [tail.first_written_spare, of_term].into_iter().flatten();
    if let Some(first) = first.min() {
        chain.remove_from(first, kind).await?;
    }
    if of_term.is_some() {
        chain.clear_last_from(end).await?;
    }
    Ok(())
}

/// Like [`repair`], for a cluster's node: it leaves nothing after the end, not even
/// segments made ahead, because a new term may begin there.
pub(crate) async fn repair_member(
    chain: &mut Chain,
    kind: &SegmentKind,
    control: &Control,
    scan: &Scan,
) -> Result<(), Error> {
    let end = scan.end;
    if !scan.clean && !chain.is_empty() {
        // Everything before the last segment with data in it is durable.
        let last = chain.segment(Lsn(end.0 - Lsn::ALIGNMENT).max(chain.first()));
        let proved = last.first.max(control.start);
        rewrite(chain, proved, end).await?;
    }
    chain.remove_from(end, kind).await?;
    if chain.first() == end && chain.term_behind(end).is_some() {
        chain.remove_all_from(end, kind).await?;
    }
    chain.clear_last_from(end).await
}

/// Rewrites the log from `proved` to `end`, and makes it durable.
async fn rewrite(chain: &Chain, proved: Lsn, end: Lsn) -> Result<(), Error> {
    if proved >= end {
        return Ok(());
    }
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
    Ok(())
}
