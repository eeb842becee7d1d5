// Package image builds small container images from the files of one layer, and pushes them to a
// registry of this machine:
//
//	files := image.Files{}.Folder("tmp", 0o1777).Program("bin/tool", "/usr/bin/tool").Link("bin/t", "tool")
//	img, err := files.On(empty.Image, func(c *v1.Config) { c.Entrypoint = []string{"/bin/tool"} })
//	err = image.Push(ctx, "127.0.0.1:5000/tool:v1", img)
//
// Owners and times are fixed, so that equal content has the same digest.
package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Files is the list of entries of a layer. Its methods append an entry. Names are relative to the
// root of the image.
type Files []entry

type entry struct {
	hdr  tar.Header
	from string // host file with the content; if empty, the content is text
	text string
}

// Program appends an executable with the content of the host's file from.
func (f Files) Program(name, from string) Files {
	return append(f, entry{hdr: tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755}, from: from})
}

// SetID appends a program with the set-user-ID and set-group-ID bits.
func (f Files) SetID(name, from string) Files {
	return append(f, entry{hdr: tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o6755}, from: from})
}

// Folder appends a folder.
func (f Files) Folder(name string, mode int64) Files {
	return append(f, entry{hdr: tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: mode}})
}

// Link appends a symbolic link.
func (f Files) Link(name, to string) Files {
	return append(f, entry{hdr: tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777}})
}

// File appends a file with this text.
func (f Files) File(name, text string) Files {
	return append(f, entry{hdr: tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, text: text})
}

// On returns an image for this machine with a layer of the files on top of a base, or the base
// itself without files. configure changes the configuration of the base. The working folder is /.
func (f Files) On(base v1.Image, configure func(*v1.Config)) (v1.Image, error) {
	img := base
	if len(f) > 0 {
		layer, err := f.layer()
		if err != nil {
			return nil, err
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config.WorkingDir = "linux", runtime.GOARCH, "/"
	configure(&config.Config)
	return mutate.ConfigFile(img, config)
}

// Push pushes an image. ref is its full name, with the host and port of the registry.
func Push(ctx context.Context, ref string, img v1.Image) error {
	to, err := name.ParseReference(ref)
	if err != nil {
		return err
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	if err := remote.Write(to, img, remote.WithContext(ctx), remote.WithTransport(transport)); err != nil {
		return fmt.Errorf("push %s: %w", to, err)
	}
	return nil
}

func (f Files) layer() (v1.Layer, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range f {
		if err := e.write(w); err != nil {
			return nil, fmt.Errorf("%s: %w", e.hdr.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(buf.Bytes())), nil
	})
}

func (e entry) write(w *tar.Writer) error {
	content := []byte(e.text)
	if e.from != "" {
		var err error
		if content, err = os.ReadFile(e.from); err != nil {
			return err
		}
		if len(content) == 0 {
			return errors.New("empty program")
		}
	}
	hdr := e.hdr
	hdr.Size = int64(len(content))
	hdr.ModTime = time.Unix(0, 0)
	if err := w.WriteHeader(&hdr); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}
