package projected

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

func stampFolder(dir string) (f folderStamp, ok bool) {
	var err error
	if f.root, err = stampOf(dir); err != nil {
		return f, false
	}
	f.version, err = stampOf(filepath.Join(dir, dataLink))
	return f, err == nil
}

func stampOf(path string) (stamp, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return stamp{}, err
	}
	return stamp{uint64(st.Dev), st.Ino, st.Mtim.Nano(), st.Ctim.Nano()}, nil
}
