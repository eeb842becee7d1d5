package podsource

import (
	"io/fs"
	"syscall"
	"time"
)

// stampOf returns what tells one version of a file from another without reading
// it, or the zero stamp when it cannot be told.
//
// A version that was written just before it was read may be followed by another
// one with the same times, since the clock of a file system is coarse. So files
// younger than a while have no stamp, nor have those from the future.
func stampOf(info fs.FileInfo, youngest time.Duration, now time.Time) stamp {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}
	}
	changed := time.Unix(st.Ctim.Unix())
	if now.Sub(changed) < youngest || now.Sub(info.ModTime()) < youngest {
		return stamp{}
	}
	return stamp{
		device: uint64(st.Dev), inode: st.Ino, size: st.Size,
		modified: info.ModTime().UnixNano(), changed: changed.UnixNano(),
	}
}

// folderOf identifies what is at a path.
func folderOf(info fs.FileInfo) folderID {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return folderID{}
	}
	return folderID{device: uint64(st.Dev), inode: st.Ino}
}
