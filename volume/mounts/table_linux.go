package mounts

import (
	"os"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Table reads a table of mounts, as /proc/1/mountinfo, the oldest mount first.
func Table(file string) ([]Point, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	found, err := mountinfo.GetMountsFromReader(f, nil)
	return points(found), err
}

// TableBelow lists what is mounted at and below a path without symbolic links, the
// oldest first, as this process sees it.
func TableBelow(path string) ([]Point, error) {
	if path == "/" {
		path = ""
	}
	found, err := mountinfo.GetMounts(mountinfo.PrefixFilter(path))
	return points(found), err
}

func points(found []*mountinfo.Info) []Point {
	out := make([]Point, len(found))
	for i, m := range found {
		options := m.Options + "," + m.VFSOptions
		out[i] = Point{
			Path: m.Mountpoint, FSType: m.FSType, Source: m.Source, Options: options,
			ReadOnly: slices.Contains(strings.Split(options, ","), "ro"),
		}
	}
	return out
}
