package mounts

import (
	"strings"

	"golang.org/x/sys/unix"
)

// flags maps options of mount(8) to flags of the kernel.
var flags = map[string]uintptr{
	"":            0,
	"defaults":    0,
	"rw":          0,
	"ro":          unix.MS_RDONLY,
	"nosuid":      unix.MS_NOSUID,
	"nodev":       unix.MS_NODEV,
	"noexec":      unix.MS_NOEXEC,
	"noatime":     unix.MS_NOATIME,
	"nodiratime":  unix.MS_NODIRATIME,
	"relatime":    unix.MS_RELATIME,
	"strictatime": unix.MS_STRICTATIME,
	"sync":        unix.MS_SYNCHRONOUS,
	"dirsync":     unix.MS_DIRSYNC,
	"bind":        unix.MS_BIND,
	"rbind":       unix.MS_BIND | unix.MS_REC,
	"remount":     unix.MS_REMOUNT,
}

// propagation maps options to changes of mount propagation.
var propagation = map[string]uintptr{
	"shared":   unix.MS_SHARED,
	"rshared":  unix.MS_SHARED | unix.MS_REC,
	"slave":    unix.MS_SLAVE,
	"rslave":   unix.MS_SLAVE | unix.MS_REC,
	"private":  unix.MS_PRIVATE,
	"rprivate": unix.MS_PRIVATE | unix.MS_REC,
}

// parse splits options into flags, propagation changes, and options for the file system.
func parse(options []string) (set uintptr, spread []uintptr, data string) {
	var rest []string
	for _, o := range options {
		if f, ok := flags[o]; ok {
			set |= f
		} else if p, ok := propagation[o]; ok {
			spread = append(spread, p)
		} else {
			rest = append(rest, o)
		}
	}
	return set, spread, strings.Join(rest, ",")
}
