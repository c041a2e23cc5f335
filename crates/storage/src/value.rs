//! Values: rows, immutable once they are shown, each in one allocation behind a thin pointer.
//!
//! ```text
//!   region or list node          one allocation
//!  +-----+---------+            +-------------+------------- … --+
//!  | cts | value ──┼──────────▶ | length, u32 | the row's bytes  |
//!  +-----+---------+            +-------------+------------- … --+
//! ```
//!
//! An allocation is as long as the two together, rounded up to the size classes that
//! allocators have anyway; so the row's length says how long it is, and a row of about
//! the same length can take another's place.
//!
//! A value that a record shows is never written again. One that its holder has to
//! himself may be: [`Value::set_row`] and [`Value::patch`] take it by a unique
//! reference, and replay (`record/replay.rs`) says why it has one.
//!
//! The pointer is thin so that a region is two words, and two regions fit a
//! record's cache line. It has two values that point at no row:
//!
//! - the *tombstone*: this version says that the row is deleted;
//! - *absent*: a region that once had a value and has none now. Null is different:
//!   the region has never had a value since its record was born.
//!
//! Both are addresses of statics, are compared and never read.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use coeval_memory::heap::size_class;
use coeval_types::{MalformedRow, RowMut, RowRef};

/// What stands before a row's bytes.
#[repr(C)]
pub(crate) struct Header {
    length: u32,
    /// Under a checker freed values stay allocated, marked, so that a reader that
    /// reaches one is found out for certain.
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

/// A value as a record holds it.
pub(crate) type ValuePointer = *mut Header;

/// The pointer that says *deleted*.
#[inline]
pub(crate) fn tombstone() -> ValuePointer {
    (&raw const TOMBSTONE).cast_mut()
}

/// The pointer that says *no value here any more*.
#[inline]
pub(crate) fn absent() -> ValuePointer {
    (&raw const ABSENT).cast_mut()
}

/// Whether the pointer says something about a version: a row or a tombstone.
#[inline]
pub(crate) fn is_present(pointer: ValuePointer) -> bool {
    !pointer.is_null() && !ptr::eq(pointer, &raw const ABSENT)
}

/// The row behind a present pointer, or `None` for a tombstone.
///
/// # Safety
/// `pointer` is present, and its value is not freed during `'value`.
#[inline]
pub(crate) unsafe fn row_at<'value>(pointer: ValuePointer) -> Option<RowRef<'value>> {
    if ptr::eq(pointer, &raw const TOMBSTONE) {
        return None;
    }
    // SAFETY: a present pointer that is no tombstone came from `Value::row`: a
    // header, then as many initialised bytes as it says, not written while anybody
    // can read them; and the caller answers for its being alive.
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

/// Bytes of memory that a present pointer's value takes, as allocators give them out.
///
/// # Safety
/// As for [`row_at`].
#[inline]
pub(crate) unsafe fn size_at(pointer: ValuePointer) -> usize {
    // SAFETY: passed on to our caller.
    match unsafe { row_at(pointer) } {
        Some(row) => size_class(size_of::<Header>() + row.bytes().len()),
        None => 0,
    }
}

/// A value on its way into or out of a record: a row, or the tombstone.
pub struct Value(NonNull<Header>);

// SAFETY: a value owns its immutable bytes; nothing in it belongs to a thread.
unsafe impl Send for Value {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Value {}

impl Value {
    /// A copy of a row, in one allocation.
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

    /// Writes a header and a row's bytes.
    ///
    /// # Safety
    /// `header` begins an allocation with [`Value::layout`] for so many bytes, which
    /// nobody else reads or writes, and of which `bytes` are no part.
    unsafe fn fill(header: NonNull<Header>, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).expect("row under 2 GiB");
        // SAFETY: the allocation has room for both, as the caller answers.
        unsafe {
            header.write(Header::new(length));
            let data = header.as_ptr().cast::<u8>().add(size_of::<Header>());
            data.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// Makes it a copy of `row`, in the memory it has if that is of the right size.
    pub(crate) fn set_row(&mut self, row: RowRef<'_>) {
        let bytes = row.bytes();
        match self.as_row() {
            Some(old) if Self::layout(old.bytes().len()) == Self::layout(bytes.len()) => {
                // SAFETY: allocated with this layout; borrowed uniquely, so that
                // nobody else has it, and `row` is no part of it.
                unsafe { Self::fill(self.0, bytes) };
            }
            _ => *self = Self::row(row),
        }
    }

    /// Applies a patch to the row, in the memory it has if it can. On an error it is
    /// as it was; a tombstone has no cell that could be patched.
    pub(crate) fn patch(&mut self, patch: &[u8]) -> Result<(), MalformedRow> {
        let length = self.as_row().ok_or(MalformedRow)?.bytes().len();
        // SAFETY: a row, so a header and then as many initialised bytes as it says;
        // borrowed uniquely, so that nobody else has them.
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

    /// The value that says *deleted*. Allocates nothing.
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

    /// Whether it says *deleted*.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        ptr::eq(self.0.as_ptr(), &raw const TOMBSTONE)
    }

    /// Bytes of memory it takes outside the record.
    #[must_use]
    pub(crate) fn size(&self) -> usize {
        // SAFETY: present by construction, and owned by `self`.
        unsafe { size_at(self.0.as_ptr()) }
    }

    /// How a row of so many bytes is allocated.
    fn layout(length: usize) -> Layout {
        let bytes = size_class(size_of::<Header>() + length);
        Layout::from_size_align(bytes, align_of::<Header>()).expect("row under 2 GiB")
    }

    /// Gives up ownership; [`Value::from_pointer`] takes it back.
    pub(crate) fn into_pointer(self) -> ValuePointer {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// Takes ownership.
    ///
    /// # Safety
    /// `pointer` came from [`Value::into_pointer`], nobody else owns it, and nobody
    /// reads it when the value is dropped.
    pub(crate) unsafe fn from_pointer(pointer: ValuePointer) -> Self {
        debug_assert!(is_present(pointer));
        // SAFETY: a present pointer is not null.
        Self(unsafe { NonNull::new_unchecked(pointer) })
    }

    /// [`Value::from_pointer`], then drop; in the shape that reclamation calls.
    ///
    /// # Safety
    /// As for [`Value::from_pointer`].
    pub(crate) unsafe fn free(pointer: *mut ()) {
        // SAFETY: passed on to our caller.
        drop(unsafe { Self::from_pointer(pointer.cast()) });
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        let Some(row) = self.as_row() else { return };
        let layout = Self::layout(row.bytes().len());
        #[cfg(any(loom, shuttle))]
        {
            // SAFETY: owned, and no tombstone.
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
