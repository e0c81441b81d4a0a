//! Streaming zstd decoder. The underlying decoder reads from a blocking source and treats missing input as the end of
//! the data, so this file splits the stream into frame headers and blocks and passes only complete ones. At most one
//! block of input and one window of output are buffered, whatever the length of the body.
//!
//! The format is RFC 8878; the window limit for HTTP is that of RFC 9659.

use std::io::{self, Read as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};
use tokio::task::coop::poll_proceed;

/// Largest window of a frame, in bytes: every client must support it, and no client needs more.
const MAX_WINDOW: u64 = 8 << 20;
/// Largest block of the format, in bytes.
const MAX_BLOCK: usize = 128 << 10;
const MAGIC: u32 = 0xFD2F_B528;
/// Magic numbers of skippable frames, which contain no data.
const SKIPPABLE: std::ops::RangeInclusive<u32> = 0x184D_2A50..=0x184D_2A5F;

/// Decodes all frames of `input`, up to its end.
pub(super) struct ZstdDecoder<R> {
    input: R,
    frame: FrameDecoder,
    /// The header or block that is being collected.
    piece: Vec<u8>,
    next: ZstdState,
}

/// Next input that the decoder expects.
#[derive(Clone, Copy)]
enum ZstdState {
    FrameHead,
    Skipped {
        left: u64,
    },
    Block(ZstdFrame),
    /// All blocks are decoded; the remaining output is being returned.
    Rest(ZstdFrame),
}

/// Properties of the current frame.
#[derive(Clone, Copy)]
struct ZstdFrame {
    checksum: bool,
    /// Announced content size, if any.
    content: Option<u64>,
    produced: u64,
}

impl<R: AsyncBufRead + Unpin> ZstdDecoder<R> {
    pub(super) fn new(input: R) -> ZstdDecoder<R> {
        let mut frame = FrameDecoder::new();
        frame.set_max_window_size(MAX_WINDOW);
        ZstdDecoder { input, frame, piece: Vec::new(), next: ZstdState::FrameHead }
    }

    /// Advances by one step; returns `false` at the end of the data.
    fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        // Frames and blocks may be empty: yields between them, however many follow each other.
        let proceed = ready!(poll_proceed(context));
        let step = match self.next {
            ZstdState::FrameHead => ready!(self.poll_frame_head(context))?,
            ZstdState::Skipped { left } => ready!(self.poll_skipped(context, left))?,
            ZstdState::Block(frame) => ready!(self.poll_block(context, frame))?,
            ZstdState::Rest(frame) => Some(self.end_of_frame(frame)?),
        };
        proceed.made_progress();
        let Some(next) = step else { return Poll::Ready(Ok(false)) };
        self.next = next;
        Poll::Ready(Ok(true))
    }

    fn poll_frame_head(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<ZstdState>>> {
        if self.piece.is_empty() && ready!(Pin::new(&mut self.input).poll_fill_buf(context))?.is_empty() {
            return Poll::Ready(Ok(None));
        }
        ready!(self.poll_gather(context, 5))?;
        let magic = u32::from_le_bytes([self.piece[0], self.piece[1], self.piece[2], self.piece[3]]);
        if SKIPPABLE.contains(&magic) {
            ready!(self.poll_gather(context, 8))?;
            let left = u32::from_le_bytes([self.piece[4], self.piece[5], self.piece[6], self.piece[7]]);
            self.piece.clear();
            return Poll::Ready(Ok(Some(ZstdState::Skipped { left: u64::from(left) })));
        }
        if magic != MAGIC {
            return Poll::Ready(Err(damaged("it is not zstd")));
        }
        let head = FrameDescriptor(self.piece[4]);
        ready!(self.poll_gather(context, head.len()))?;
        self.frame.reset(&self.piece[..]).map_err(|error| decoder_error(&error))?;
        let content = head.has_content_size().then(|| self.frame.content_size());
        self.piece.clear();
        Poll::Ready(Ok(Some(ZstdState::Block(ZstdFrame { checksum: head.has_checksum(), content, produced: 0 }))))
    }

    fn poll_skipped(&mut self, context: &mut Context<'_>, mut left: u64) -> Poll<io::Result<Option<ZstdState>>> {
        while left > 0 {
            let available = ready!(Pin::new(&mut self.input).poll_fill_buf(context))?.len();
            if available == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            let passed = available.min(usize::try_from(left).unwrap_or(usize::MAX));
            Pin::new(&mut self.input).consume(passed);
            left -= passed as u64;
            // Saved, in case the next poll has nothing to read yet.
            self.next = ZstdState::Skipped { left };
        }
        Poll::Ready(Ok(Some(ZstdState::FrameHead)))
    }

    fn poll_block(&mut self, context: &mut Context<'_>, frame: ZstdFrame) -> Poll<io::Result<Option<ZstdState>>> {
        ready!(self.poll_gather(context, 3))?;
        let head = u32::from_le_bytes([self.piece[0], self.piece[1], self.piece[2], 0]);
        let (last, repeated, size) = (head & 1 == 1, head >> 1 & 3 == 1, (head >> 3) as usize);
        if size > MAX_BLOCK {
            return Poll::Ready(Err(damaged("a zstd block is larger than the format allows")));
        }
        // An RLE block contains only the repeated byte.
        let content = if repeated { 1 } else { size };
        ready!(self.poll_gather(context, 3 + content + if last && frame.checksum { 4 } else { 0 }))?;
        self.frame
            .decode_blocks(&self.piece[..], BlockDecodingStrategy::UptoBlocks(1))
            .map_err(|error| decoder_error(&error))?;
        self.piece.clear();
        Poll::Ready(Ok(Some(if last { ZstdState::Rest(frame) } else { ZstdState::Block(frame) })))
    }

    fn end_of_frame(&self, frame: ZstdFrame) -> io::Result<ZstdState> {
        if frame.checksum && self.frame.get_checksum_from_data() != self.frame.get_calculated_checksum() {
            return Err(damaged("its zstd checksum does not fit"));
        }
        if frame.content.is_some_and(|content| content != frame.produced) {
            return Err(damaged("its length differs from the zstd header"));
        }
        Ok(ZstdState::FrameHead)
    }

    /// Collects input until the piece has `len` bytes.
    fn poll_gather(&mut self, context: &mut Context<'_>, len: usize) -> Poll<io::Result<()>> {
        while self.piece.len() < len {
            let available = ready!(Pin::new(&mut self.input).poll_fill_buf(context))?;
            let taken = available.len().min(len - self.piece.len());
            if taken == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            self.piece.extend_from_slice(&available[..taken]);
            Pin::new(&mut self.input).consume(taken);
        }
        Poll::Ready(Ok(()))
    }
}

impl<R: AsyncBufRead + Unpin> AsyncRead for ZstdDecoder<R> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let decoder = self.get_mut();
        if into.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            let (ZstdState::Block(frame) | ZstdState::Rest(frame)) = &mut decoder.next else {
                if ready!(decoder.poll_step(context))? {
                    continue;
                }
                return Poll::Ready(Ok(()));
            };
            if decoder.frame.can_collect() > 0 {
                let count = decoder.frame.read(into.initialize_unfilled())?;
                into.advance(count);
                frame.produced += count as u64;
                return Poll::Ready(Ok(()));
            }
            ready!(decoder.poll_step(context))?;
        }
    }
}

/// The frame descriptor, the byte after the magic number: which fields the frame header has.
struct FrameDescriptor(u8);

impl FrameDescriptor {
    /// Length of the whole header, magic number included.
    fn len(&self) -> usize {
        let window = usize::from(!self.is_single_segment());
        let dictionary = [0, 1, 2, 4][usize::from(self.0 & 3)];
        let content = match self.0 >> 6 {
            0 => usize::from(self.is_single_segment()),
            power => 1 << power,
        };
        5 + window + dictionary + content
    }

    fn is_single_segment(&self) -> bool {
        self.0 & 0x20 != 0
    }

    fn has_checksum(&self) -> bool {
        self.0 & 4 != 0
    }

    fn has_content_size(&self) -> bool {
        self.0 >> 6 != 0 || self.is_single_segment()
    }
}

/// Translates the decoder's error into a message for users.
fn decoder_error(error: &FrameDecoderError) -> io::Error {
    damaged(match error {
        FrameDecoderError::WindowSizeTooBig { .. } => "its zstd window is larger than 8 MiB",
        FrameDecoderError::DictNotProvided { .. } => "it needs a zstd dictionary",
        _ => "the zstd data is damaged",
    })
}

fn damaged(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
