package imageref_test

import (
	"fmt"

	"github.com/podwright/podwright/cri/images/imageref"
)

func ExampleParse() {
	name, err := imageref.Parse("registry.example.com:5000/team/app:v1")
	fmt.Println(name.Repository, name.Tag, err)
	name, _ = imageref.Parse("busybox")
	fmt.Println(name.Normal(), name.Canonical())
	_, err = imageref.Parse("App")
	fmt.Println(err)
	// Output:
	// registry.example.com:5000/team/app v1 <nil>
	// busybox:latest docker.io/library/busybox
	// image name "App": invalid reference format: repository name (library/App) must be lowercase
}
