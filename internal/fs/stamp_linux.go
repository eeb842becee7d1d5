package fs

import (
	"io/fs"
	"syscall"
	"time"
)

// StampOf returns the stamp of a file's version, or the zero stamp if it is unavailable.
//
// Clocks of file systems are coarse: a version that is read right after its write may be
// followed by a different one with the same times. Files younger than youngest, and files from
// the future, therefore have no stamp.
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

// IDOf returns the ID of a file, or the zero ID if it is unavailable.
func IDOf(info fs.FileInfo) ID {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ID{}
	}
	return ID{uint64(st.Dev), st.Ino}
}
