// Package image builds small container images from the files of one layer:
//
//	files := image.Files{}.Folder("tmp", 0o1777).Program("bin/tool", "/usr/bin/tool").Link("bin/t", "tool")
//	layer, err := files.Layer()
//
// Owners and times are fixed, so that equal content has the same digest.
package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
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

// Layer returns the layer with the files.
func (f Files) Layer() (v1.Layer, error) {
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
