package volume_test

import (
	"errors"
	"fmt"

	"github.com/podwright/podwright/volume"
)

func ExampleLayout() {
	l := volume.Layout{Root: "/var/lib/kubelet"}
	fmt.Println(l.Volume("1234", "kubernetes.io/empty-dir", "cache"))
	fmt.Println(l.State("1234", "kubernetes.io/empty-dir", "cache"))
	// Output:
	// /var/lib/kubelet/pods/1234/volumes/kubernetes.io~empty-dir/cache
	// /var/lib/kubelet/pods/1234/plugins/kubernetes.io~empty-dir/cache
}

func ExampleAtField() {
	err := volume.AtField("hostPath", volume.AtField("type", errors.New("unsupported")))
	err = volume.AtField("spec.volumes[0]", volume.Transient(err))
	fmt.Println(err)
	fmt.Println(errors.Is(err, volume.ErrTransient))
	// Output:
	// spec.volumes[0].hostPath.type: unsupported
	// true
}
