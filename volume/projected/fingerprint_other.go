//go:build !linux

package projected

// stampFolder returns false on this system, so that folders are written each time.
func stampFolder(string) (f folderStamp, ok bool) { return f, false }
