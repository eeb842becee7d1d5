package evictions

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/syncloop/eviction"
)

// Device is the number of the file system that a folder is on.
func Device(dir string) (uint64, error) {
	var is unix.Stat_t
	if err := unix.Stat(dir, &is); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	return uint64(is.Dev), nil
}

// DisksOf tells where images and containers are, by what the runtime says of them: root is
// the agent's folder, on the node's file system. A runtime that names no place has none of
// its own; a place that is not here is another machine's.
func DisksOf(root string, info *runtimeapi.ImageFsInfoResponse, device func(dir string) (uint64, error)) (eviction.Disks, error) {
	node, err := device(root)
	if err != nil {
		return 0, err
	}
	elsewhere := func(list []*runtimeapi.FilesystemUsage) (bool, error) {
		if len(list) == 0 || list[0].GetFsId().GetMountpoint() == "" {
			return false, nil
		}
		on, err := device(list[0].FsId.Mountpoint)
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		return on != node, err
	}
	images, err := elsewhere(info.GetImageFilesystems())
	if err != nil {
		return 0, fmt.Errorf("where images are: %w", err)
	}
	if !images {
		return eviction.OneDisk, nil
	}
	list := info.GetContainerFilesystems()
	if len(list) == 0 {
		return eviction.ImageDisk, nil // of runtimes that know of no other
	}
	containers, err := elsewhere(list)
	if err != nil {
		return 0, fmt.Errorf("where containers are: %w", err)
	}
	if containers {
		return eviction.ImageDisk, nil
	}
	return eviction.SplitDisk, nil
}
