package logs

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
)

// compress replaces a rotated file by a compressed one. The compressed file is complete on the
// disk before it gets its name, and then the original is removed, so that a crash loses no lines.
func compress(ctx context.Context, path string) (err error) {
	in, err := openPlain(path)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	temp := path + tempSuffix
	if err := writeCompressed(ctx, temp, info.Mode().Perm(), in); err != nil {
		if removeErr := os.Remove(temp); !errors.Is(removeErr, os.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
		return err
	}
	if err := os.Rename(temp, path+gzSuffix); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return os.Remove(path)
}

func writeCompressed(ctx context.Context, path string, mode os.FileMode, in io.Reader) (err error) {
	// O_EXCL refuses files and links that another process created.
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := out.Chmod(mode); err != nil { // independent of the umask
		return err
	}
	zip := gzip.NewWriter(out)
	if _, err := io.Copy(zip, untilDone{ctx, in}); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return out.Sync()
}

type untilDone struct {
	ctx context.Context
	in  io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.in.Read(p)
}
