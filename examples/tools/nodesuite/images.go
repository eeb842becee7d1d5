package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/examples/tools/internal/image"
)

// suiteImage is an image with its name below registry.k8s.io.
type suiteImage struct {
	name string
	img  v1.Image
}

// recipe is an image of the suite: files on top of a base, and its configuration.
type recipe struct {
	// ids are the image's identifiers in test/utils/image/manifest.go. Each becomes an image of
	// its own. An identifier with a colon is the name itself.
	ids             []string
	base            v1.Image
	files           image.Files
	entrypoint, cmd []string
	user            string
}

// makeImages builds the images of the suite on the testbed's images.
func makeImages(ctx context.Context, p programs) ([]suiteImage, error) {
	busybox, err := testbedImage(ctx, "PODWRIGHT_IMAGE_BUSYBOX")
	if err != nil {
		return nil, err
	}
	pause, err := testbedImage(ctx, "PODWRIGHT_IMAGE_PAUSE")
	if err != nil {
		return nil, err
	}
	manifest, err := os.ReadFile(filepath.Join(p.kubernetes, "test/utils/image/manifest.go"))
	if err != nil {
		return nil, err
	}
	recipes, err := suiteRecipes(p, busybox, pause)
	if err != nil {
		return nil, err
	}
	names := imageNames(string(manifest))
	var out []suiteImage
	for _, r := range recipes {
		for _, id := range r.ids {
			named := names[id]
			if named == "" && !isIdentifier(id) {
				named = id
			}
			if named == "" {
				return nil, fmt.Errorf("the suite has no image %s", id)
			}
			img, err := r.build(named)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", id, err)
			}
			out = append(out, suiteImage{name: named, img: img})
		}
	}
	return out, nil
}

// The accounts of agnhost. Specs of supplemental groups use user-defined-in-image.
const (
	users  = "root:x:0:0:root:/root:/bin/sh\nuser-defined-in-image:x:1000:1000::/home:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
	groups = "root:x:0:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\nnogroup:x:65534:\n"
)

func suiteRecipes(p programs, busybox, pause v1.Image) ([]recipe, error) {
	registry, err := registryFiles("pause", "testing", pause)
	if err != nil {
		return nil, err
	}
	program := func(name string) string { return filepath.Join(p.images, name) }
	porter := filepath.Join(p.kubernetes, "test/images/agnhost/porter")
	agnhost := image.Files{}.Program("agnhost", program("agnhost")).Link("agnhost-2", "agnhost").
		Program("usr/bin/curl", program("applets")).Program("usr/bin/nmeter", program("applets")).
		Program("bin/bash", program("applets")).
		Program("localhost.crt", filepath.Join(porter, "localhost.crt")).Program("localhost.key", filepath.Join(porter, "localhost.key")).
		Folder("uploads", 0o755).File("etc/passwd", users).File("etc/group", groups)
	plain := []string{"sh"}
	return []recipe{
		{ids: []string{"Pause"}, base: pause, entrypoint: []string{"/pause"}},
		{ids: []string{"Agnhost", "AgnhostPrev"}, base: busybox, files: append(agnhost, registry...), entrypoint: []string{"/agnhost"}, cmd: []string{"pause"}},
		{ids: []string{"BusyBox", "e2e-test-images/busybox:1.36.1-1"}, base: busybox, files: image.Files{}.Program("usr/bin/nmeter", program("applets")), cmd: plain},
		{ids: []string{"Nginx", "NginxNew"}, base: busybox, files: image.Files{}.Program("usr/sbin/nginx", program("applets")), cmd: []string{"nginx"}},
		{ids: []string{"Nonewprivs"}, base: busybox, files: image.Files{}.SetID("usr/local/bin/nnp", program("nonewprivs")), cmd: []string{"nnp"}},
		{ids: []string{"NonRoot"}, base: busybox, user: "1234", cmd: plain},
		{ids: []string{"IpcUtils", "GlibcDnsTesting"}, base: busybox, cmd: plain},
		{ids: []string{"Kitten"}, base: empty.Image, files: image.Files{}.File("data.json", `{"image":"kitten.jpg"}`+"\n").File("etc/os-release", "NAME=\"Alpine Linux\"\n")},
		{ids: []string{"e2e-test-images/sample-device-plugin:1.7"}, base: busybox,
			files: image.Files{}.Program("sampledeviceplugin", program("sample-device-plugin")), entrypoint: []string{"/sampledeviceplugin", "-alsologtostderr"}},
	}, nil
}

// build adds a variable to the image, so that images with equal files differ.
func (r recipe) build(named string) (v1.Image, error) {
	return r.files.On(r.base, func(c *v1.Config) {
		c.Entrypoint, c.Cmd, c.User = r.entrypoint, r.cmd, r.user
		c.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/"}
		c.Labels = map[string]string{"nodesuite": named}
	})
}

// imageLine matches an image of the suite's list: identifier, registry, name and version.
var imageLine = regexp.MustCompile(`configs\[(\w+)\] = Config\{list\.(\w+), "([^"]+)", "([^"]+)"\}`)

// imageNames returns the names of the suite's images below registry.k8s.io, by identifier.
func imageNames(manifest string) map[string]string {
	folders := map[string]string{"PromoterE2eRegistry": "e2e-test-images/", "GcRegistry": ""}
	out := map[string]string{}
	for _, match := range imageLine.FindAllStringSubmatch(manifest, -1) {
		if folder, ok := folders[match[2]]; ok {
			out[match[1]] = folder + match[3] + ":" + match[4]
		}
	}
	return out
}

func isIdentifier(id string) bool { return regexp.MustCompile(`^\w+$`).MatchString(id) }

// registryFiles returns the files that agnhost's registry server serves: an index with one image.
func registryFiles(repository, tag string, img v1.Image) (image.Files, error) {
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}},
	})
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	var out image.Files
	add := func(folder string, digest v1.Hash, content []byte) {
		path := "var/registry/" + repository + "/" + folder + "/" + digest.Algorithm + "/" + digest.Hex[:2] + "/" + digest.Hex + "/data"
		out = out.File(path, string(content))
	}
	blob := func(folder string, read func() ([]byte, error), hash func() (v1.Hash, error)) {
		content, readErr := read()
		digest, hashErr := hash()
		if err = errors.Join(err, readErr, hashErr); err == nil {
			add(folder, digest, content)
		}
	}
	blob("manifests", index.RawManifest, index.Digest)
	blob("manifests", img.RawManifest, img.Digest)
	blob("blobs", img.RawConfigFile, img.ConfigName)
	for _, layer := range layers {
		blob("blobs", func() ([]byte, error) {
			r, err := layer.Compressed()
			if err != nil {
				return nil, err
			}
			defer r.Close()
			return io.ReadAll(r)
		}, layer.Digest)
	}
	if err != nil {
		return nil, err
	}
	digest, err := index.Digest()
	return out.File("var/registry/"+repository+"/manifests/"+tag, digest.String()+"\n"), err
}

// testbedImage reads the image that an environment variable names.
func testbedImage(ctx context.Context, variable string) (v1.Image, error) {
	ref, err := name.ParseReference(os.Getenv(variable))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	return remote.Image(ref, remote.WithContext(ctx))
}

// deliver pushes the images to the testbed's registry, which is a mirror of registry.k8s.io, and
// pulls them under their names.
func deliver(ctx context.Context, images []suiteImage, endpoint string) error {
	service, err := cri.DialImages(ctx, cri.ClientConfig{Endpoint: endpoint})
	if err != nil {
		return err
	}
	defer service.Close()
	for _, i := range images {
		if err := image.Push(ctx, os.Getenv("PODWRIGHT_REGISTRY")+"/"+i.name, i.img); err != nil {
			return err
		}
		if _, err := service.PullImage(ctx, &criv1.ImageSpec{Image: "registry.k8s.io/" + i.name}, nil, nil); err != nil {
			return err
		}
	}
	return nil
}
