package gc

import (
	"context"
	"errors"
	"fmt"
)

// diskOf measures the filesystem that the runtime reports for its images.
func diskOf(images Images) func(ctx context.Context) (Disk, error) {
	return func(ctx context.Context) (Disk, error) {
		info, err := images.ImageFsInfo(ctx)
		if err != nil {
			return Disk{}, fmt.Errorf("image file system of the runtime: %w", err)
		}
		for _, fs := range info.GetImageFilesystems() {
			if path := fs.GetFsId().GetMountpoint(); path != "" {
				return measure(path)
			}
		}
		return Disk{}, errors.New("the runtime reports no image file system")
	}
}
