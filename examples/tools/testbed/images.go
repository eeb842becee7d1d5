package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"

	"github.com/podwright/podwright/examples/tools/internal/image"
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
	prog := image.Files{}.Program("testprog", testprog)
	busybox := busyboxFS(t.busybox, strings.Fields(string(applets)))
	return assemble([]recipe{
		{name: imagePause, fs: image.Files{}.Program("pause", pause), entrypoint: []string{"/pause"}},
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
	fs                   image.Files
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
	return r.fs.On(empty.Image, func(c *v1.Config) {
		c.Entrypoint, c.Cmd = r.entrypoint, r.cmd
		c.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin:/"}, r.env...)
	})
}

func busyboxFS(busybox string, applets []string) image.Files {
	fs := image.Files{}.Folder("bin", 0o755).Folder("etc", 0o755).Folder("root", 0o700).
		Folder("tmp", 0o1777).Folder("var", 0o755).Folder("www", 0o755).
		Program("bin/busybox", busybox).
		File("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n").
		File("etc/group", "root:x:0:\nnogroup:x:65534:\n")
	for _, applet := range applets {
		if applet != "busybox" {
			fs = fs.Link("bin/"+applet, "busybox")
		}
	}
	return fs
}
