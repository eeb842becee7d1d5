// Package images lets Go tests add images to the testbed's registry. It is apart from package tb,
// because it links a client of registries.
package images

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"

	"github.com/podwright/podwright/examples/tools/internal/image"
	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

// Push makes an image that contains a statically linked program of the host, as /PROGRAM, and pushes
// it to the testbed's registry below name, such as "tests/tool:v1". links are further names of the
// program. Push returns the full name of the image. It skips the test outside of a testbed.
func Push(t testing.TB, name, program, from string, links ...string) string {
	t.Helper()
	ref := tb.Images(t).Registry + "/" + name
	files := image.Files{}.Folder("tmp", 0o1777).Program(program, from)
	for _, link := range links {
		files = files.Link(link, program)
	}
	img, err := files.On(empty.Image, func(c *v1.Config) {
		c.Entrypoint, c.Env = []string{"/" + program}, []string{"PATH=/"}
	})
	if err == nil {
		err = image.Push(t.Context(), ref, img)
	}
	if err != nil {
		t.Fatalf("image %s: %v", name, err)
	}
	return ref
}
