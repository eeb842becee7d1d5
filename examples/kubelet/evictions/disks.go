package evictions

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/syncloop/eviction"
)

// Device returns the device number of a folder's filesystem.
func Device(dir string) (uint64, error) {
	var is unix.Stat_t
	if err := unix.Stat(dir, &is); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	return uint64(is.Dev), nil
}

// DisksOf returns how images and containers are divided among filesystems, from the runtime's
// response. root is the agent's folder on the node's filesystem. Without a mount point in the
// response, the runtime uses the node's filesystem. A mount point that does not exist here belongs
// to another machine and counts as separate.
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
		return 0, fmt.Errorf("disk of images: %w", err)
	}
	if !images {
		return eviction.OneDisk, nil
	}
	list := info.GetContainerFilesystems()
	if len(list) == 0 {
		return eviction.ImageDisk, nil // the runtime does not report a separate one
	}
	containers, err := elsewhere(list)
	if err != nil {
		return 0, fmt.Errorf("disk of containers: %w", err)
	}
	if containers {
		return eviction.ImageDisk, nil
	}
	return eviction.SplitDisk, nil
}
