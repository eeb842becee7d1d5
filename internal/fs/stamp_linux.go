package fs

import (
	"io/fs"
	"syscall"
	"time"
)

// StampOf returns what tells one version of a file from another without reading it, or
// the zero stamp when it cannot be told.
//
// A version that was written just before it was read may be followed by another one with
// the same times, since the clock of a file system is coarse. So files younger than a
// while have no stamp, nor have those from the future.
func StampOf(info fs.FileInfo, youngest time.Duration, now time.Time) Stamp {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Stamp{}
	}
	changed := time.Unix(st.Ctim.Unix())
	if now.Sub(changed) < youngest || now.Sub(info.ModTime()) < youngest {
		return Stamp{}
	}
	return Stamp{
		Device: uint64(st.Dev), Inode: st.Ino, Size: st.Size,
		Modified: info.ModTime().UnixNano(), Changed: changed.UnixNano(),
	}
}

// IDOf is the zero ID when it is not known.
func IDOf(info fs.FileInfo) ID {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ID{}
	}
	return ID{uint64(st.Dev), st.Ino}
}
