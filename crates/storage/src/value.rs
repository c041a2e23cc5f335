//! Values: immutable rows, each in one allocation behind a thin pointer.
//!
//! ```text
//!   region or list node          one allocation
//!  +-----+---------+            +-------------+------------- … --+
//!  | cts | value ──┼──────────▶ | length, u32 | the row's bytes  |
//!  +-----+---------+            +-------------+------------- … --+
//! ```
//!
//! An allocation has the length of header and row, rounded up to the allocator's size
//! classes; so the row's length determines it, and a row of about the same length can be
//! stored in place of another.
//!
//! A value that readers can reach is never changed. A value with a single owner may be:
//! [`Value::set_row`] and [`Value::patch`] take it by a unique reference, and replay
//! (`record/replay.rs`) explains why it has one.
//!
//! The pointer is thin so that a region is two words, and two regions fit a record's cache
//! line. Two special values point to no row:
//!
//! - the *tombstone*: in this version the row is deleted;
//! - *absent*: the region once had a value and has none now. Null is different: the region
//!   has never had a value since its record was allocated.
//!
//! Both are addresses of statics, which are compared and never read.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use coeval_memory::heap::size_class;
use coeval_types::{MalformedRow, RowMut, RowRef};

/// Header of a value, stored before the row's bytes.
#[repr(C)]
pub(crate) struct Header {
    length: u32,
    /// Under a checker, freed values stay allocated and are marked, so that a test reliably
    /// detects a reader that reaches one.
    #[cfg(any(loom, shuttle))]
    freed: std::sync::atomic::AtomicBool,
}

impl Header {
    const fn new(length: u32) -> Self {
        Self {
            length,
            #[cfg(any(loom, shuttle))]
            freed: std::sync::atomic::AtomicBool::new(false),
        }
    }
}

static TOMBSTONE: Header = Header::new(0);
static ABSENT: Header = Header::new(1);

/// Pointer to a value, as a record stores it.
pub(crate) type ValuePointer = *mut Header;

/// The pointer that marks a deleted row.
#[inline]
pub(crate) fn tombstone() -> ValuePointer {
    (&raw const TOMBSTONE).cast_mut()
}

/// The pointer that marks a region without a value.
#[inline]
pub(crate) fn absent() -> ValuePointer {
    (&raw const ABSENT).cast_mut()
}

/// Whether the pointer is a version's value: a row or a tombstone.
#[inline]
pub(crate) fn is_present(pointer: ValuePointer) -> bool {
    !pointer.is_null() && !ptr::eq(pointer, &raw const ABSENT)
}

/// The row at a present pointer, or `None` for a tombstone.
///
/// # Safety
/// `pointer` is present, and its value is not freed during `'value`.
#[inline]
pub(crate) unsafe fn row_at<'value>(pointer: ValuePointer) -> Option<RowRef<'value>> {
    if ptr::eq(pointer, &raw const TOMBSTONE) {
        return None;
    }
    // SAFETY: a present pointer other than the tombstone came from `Value::row`: a header,
    // then as many initialised bytes as it says, not written while any thread can read
    // them; and the caller guarantees that it is alive.
    unsafe {
        #[cfg(any(loom, shuttle))]
        assert!(
            !(*pointer).freed.load(std::sync::atomic::Ordering::SeqCst),
            "read of a freed value"
        );
        let length = (*pointer).length as usize;
        let bytes = pointer.cast::<u8>().add(size_of::<Header>());
        Some(RowRef::trusted(std::slice::from_raw_parts(bytes, length)))
    }
}

/// Bytes that a present pointer's value occupies, in the allocator's size classes.
///
/// # Safety
/// As for [`row_at`].
#[inline]
pub(crate) unsafe fn size_at(pointer: ValuePointer) -> usize {
    // SAFETY: the caller guarantees what `row_at` requires.
    match unsafe { row_at(pointer) } {
        Some(row) => size_class(size_of::<Header>() + row.bytes().len()),
        None => 0,
    }
}

/// An owned value, outside a record: a row, or the tombstone.
pub struct Value(NonNull<Header>);

// SAFETY: a value owns its immutable bytes; nothing in it is bound to a thread.
unsafe impl Send for Value {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Value {}

impl Value {
    /// Copies a row into one allocation.
    ///
    /// # Panics
    /// When the row is 4 GiB or longer, which no row is.
    #[must_use]
    pub fn row(row: RowRef<'_>) -> Self {
        let bytes = row.bytes();
        let layout = Self::layout(bytes.len());
        // SAFETY: the layout has room for a header, so is not empty.
        let header = unsafe { alloc(layout) }.cast::<Header>();
        let Some(header) = NonNull::new(header) else {
            handle_alloc_error(layout)
        };
        // SAFETY: just allocated for these bytes; a fresh allocation overlaps
        // nothing.
        unsafe { Self::fill(header, bytes) };
        Self(header)
    }

    /// Writes a header and a row's bytes to an allocation.
    ///
    /// # Safety
    /// `header` begins an allocation with [`Value::layout`] for `bytes.len()` bytes, which
    /// no other thread reads or writes, and which does not overlap `bytes`.
    unsafe fn fill(header: NonNull<Header>, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).expect("row under 2 GiB");
        // SAFETY: the allocation has room for both, which the caller guarantees.
        unsafe {
            header.write(Header::new(length));
            let data = header.as_ptr().cast::<u8>().add(size_of::<Header>());
            data.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// Replaces the value by a copy of `row`, in the same memory if that has the right
    /// size.
    pub(crate) fn set_row(&mut self, row: RowRef<'_>) {
        let bytes = row.bytes();
        match self.as_row() {
            Some(old) if Self::layout(old.bytes().len()) == Self::layout(bytes.len()) => {
                // SAFETY: allocated with this layout; borrowed uniquely, so that no other
                // thread accesses it, and `row` does not overlap it.
                unsafe { Self::fill(self.0, bytes) };
            }
            _ => *self = Self::row(row),
        }
    }

    /// Applies a patch to the row, in the same memory if possible. On an error the value is
    /// unchanged; a tombstone has no cell to patch.
    pub(crate) fn patch(&mut self, patch: &[u8]) -> Result<(), MalformedRow> {
        let length = self.as_row().ok_or(MalformedRow)?.bytes().len();
        // SAFETY: a row, so a header and then as many initialised bytes as it says;
        // borrowed uniquely, so that no other thread accesses them.
        let bytes = unsafe {
            let data = self.0.as_ptr().cast::<u8>().add(size_of::<Header>());
            std::slice::from_raw_parts_mut(data, length)
        };
        if RowMut::trusted(bytes).patch(patch)? {
            return Ok(());
        }
        let mut patched = Vec::new();
        RowRef::trusted(bytes).patched(patch, &mut patched)?;
        self.set_row(RowRef::trusted(&patched));
        Ok(())
    }

    /// The tombstone value. Allocates nothing.
    #[must_use]
    pub fn tombstone() -> Self {
        Self(NonNull::from(&TOMBSTONE))
    }

    /// The row, or `None` for a tombstone.
    #[must_use]
    pub fn as_row(&self) -> Option<RowRef<'_>> {
        // SAFETY: present by construction, and owned by `self`.
        unsafe { row_at(self.0.as_ptr()) }
    }

    /// Whether the value is a tombstone.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        ptr::eq(self.0.as_ptr(), &raw const TOMBSTONE)
    }

    /// Bytes that the value occupies outside the record.
    #[must_use]
    pub(crate) fn size(&self) -> usize {
        // SAFETY: present by construction, and owned by `self`.
        unsafe { size_at(self.0.as_ptr()) }
    }

    /// The layout of the allocation for a row of `length` bytes.
    fn layout(length: usize) -> Layout {
        let bytes = size_class(size_of::<Header>() + length);
        Layout::from_size_align(bytes, align_of::<Header>()).expect("row under 2 GiB")
    }

    /// Gives up ownership of the allocation; [`Value::from_pointer`] takes it back.
    pub(crate) fn into_pointer(self) -> ValuePointer {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// Takes ownership of the value at `pointer`.
    ///
    /// # Safety
    /// `pointer` came from [`Value::into_pointer`], it has no other owner, and no thread
    /// reads it when the value is dropped.
    pub(crate) unsafe fn from_pointer(pointer: ValuePointer) -> Self {
        debug_assert!(is_present(pointer));
        // SAFETY: a present pointer is not null.
        Self(unsafe { NonNull::new_unchecked(pointer) })
    }

    /// Drops the value at `pointer`, with the signature that reclamation calls.
    ///
    /// # Safety
    /// As for [`Value::from_pointer`].
    pub(crate) unsafe fn free(pointer: *mut ()) {
        // SAFETY: the caller guarantees what `from_pointer` requires.
        drop(unsafe { Self::from_pointer(pointer.cast()) });
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        let Some(row) = self.as_row() else { return };
        let layout = Self::layout(row.bytes().len());
        #[cfg(any(loom, shuttle))]
        {
            // SAFETY: owned, and not the tombstone.
            let freed = unsafe { &self.0.as_ref().freed };
            let _ = layout;
            freed.store(true, std::sync::atomic::Ordering::SeqCst);
        }
        #[cfg(not(any(loom, shuttle)))]
        // SAFETY: allocated by `Value::row` with this layout; owned, so dropped
        // once.
        unsafe {
            dealloc(self.0.as_ptr().cast(), layout);
        }
    }
}

#[cfg(any(loom, shuttle))]
const _: unsafe fn(*mut u8, Layout) = dealloc;

impl fmt::Debug for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_row() {
            Some(row) => fmt::Debug::fmt(&row, formatter),
            None => formatter.write_str("tombstone"),
        }
    }
}
