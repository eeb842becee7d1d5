package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

type testImage struct {
	name string // repository:tag, without the registry
	img  v1.Image
}

// testImages builds all images of the testbed, in the order of imageNames.
func testImages(ctx context.Context, c cache, t tools) ([]testImage, error) {
	pause, err := buildProgram(ctx, c, "pause")
	if err != nil {
		return nil, err
	}
	testprog, err := buildProgram(ctx, c, "testprog")
	if err != nil {
		return nil, err
	}
	applets, err := exec.CommandContext(ctx, t.busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("busybox --list: %w", err)
	}
	prog := rootfs{}.program("testprog", testprog)
	busybox := busyboxFS(t.busybox, strings.Fields(string(applets)))
	return assemble([]recipe{
		{name: imagePause, fs: rootfs{}.program("pause", pause), entrypoint: []string{"/pause"}},
		{name: imageBusybox, fs: busybox, cmd: []string{"sh"}},
		{name: imageTestprog, fs: prog, entrypoint: []string{"/testprog"}, env: []string{"TESTPROG_VERSION=v1"}},
		{name: imageTestprog2, fs: prog, entrypoint: []string{"/testprog"}, env: []string{"TESTPROG_VERSION=v2"}},
		{name: imageHubBusybox, fs: busybox, cmd: []string{"sh"}},
	})
}

const (
	imagePause     = "podwright/pause:v1"
	imageBusybox   = "podwright/busybox:v1"
	imageTestprog  = "podwright/testprog:v1"
	imageTestprog2 = "podwright/testprog:v2"
	// imageHubBusybox is the image of the example manifests, with its name at Docker Hub. The
	// runtimes pull it at its first use.
	imageHubBusybox = "library/busybox:1.36"
)

type recipe struct {
	name                 string
	fs                   rootfs
	entrypoint, cmd, env []string
}

func assemble(recipes []recipe) ([]testImage, error) {
	var images []testImage
	for _, r := range recipes {
		img, err := r.build()
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", r.name, err)
		}
		images = append(images, testImage{name: r.name, img: img})
	}
	return images, nil
}

func (r recipe) build() (v1.Image, error) {
	layer, err := r.fs.layer()
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture = "linux", runtime.GOARCH
	cfg.Config.Entrypoint, cfg.Config.Cmd = r.entrypoint, r.cmd
	cfg.Config.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin:/"}, r.env...)
	cfg.Config.WorkingDir = "/"
	return mutate.ConfigFile(img, cfg)
}

// rootfs is the list of entries of an image's single layer.
type rootfs []entry

type entry struct {
	hdr  tar.Header
	from string // host file with the content; if empty, the content is text
	text string
}

func (fs rootfs) program(name, from string) rootfs {
	return append(fs, entry{hdr: tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755}, from: from})
}

func (fs rootfs) folder(name string, mode int64) rootfs {
	return append(fs, entry{hdr: tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: mode}})
}

func (fs rootfs) link(name, to string) rootfs {
	return append(fs, entry{hdr: tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777}})
}

func (fs rootfs) file(name, text string) rootfs {
	return append(fs, entry{hdr: tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, text: text})
}

func busyboxFS(busybox string, applets []string) rootfs {
	fs := rootfs{}.folder("bin", 0o755).folder("etc", 0o755).folder("root", 0o700).
		folder("tmp", 0o1777).folder("var", 0o755).folder("www", 0o755).
		program("bin/busybox", busybox).
		file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n").
		file("etc/group", "root:x:0:\nnogroup:x:65534:\n")
	for _, applet := range applets {
		if applet != "busybox" {
			fs = fs.link("bin/"+applet, "busybox")
		}
	}
	return fs
}

// layer writes the entries with fixed owners and times, so that equal content has the same digest.
func (fs rootfs) layer() (v1.Layer, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range fs {
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
