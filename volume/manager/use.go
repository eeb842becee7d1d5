package manager

import (
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

type volumeUse struct {
	// Name is the volume's name in the pod's spec.
	Name string
	// Mounts is true if containers mount it, Devices if they use it as a device. No volume
	// supports both.
	Mounts, Devices bool
	// Inside has the sorted paths, relative to the volume, at which containers mount other
	// volumes, without duplicates.
	Inside []string
}

// usedBy lists the volumes that containers of a pod use, including init and ephemeral
// containers, in the order of the pod's spec. Only these are mounted.
func usedBy(pod *v1.Pod) []volumeUse {
	uses := map[string]*volumeUse{}
	use := func(name string) *volumeUse {
		if uses[name] == nil {
			uses[name] = &volumeUse{Name: name}
		}
		return uses[name]
	}
	for c := range podfacts.Containers(pod) {
		for _, m := range c.VolumeMounts {
			u := use(m.Name)
			u.Mounts = true
			if m.SubPath == "" && m.SubPathExpr == "" {
				u.Inside = append(u.Inside, inside(m, c.VolumeMounts)...)
			}
		}
		for _, d := range c.VolumeDevices {
			use(d.Name).Devices = true
		}
	}
	var out []volumeUse
	for i := range pod.Spec.Volumes {
		if u := uses[pod.Spec.Volumes[i].Name]; u != nil {
			slices.Sort(u.Inside)
			u.Inside = slices.Compact(u.Inside)
			out = append(out, *u)
		}
	}
	return out
}

// inside lists the mount points of a container below one of its mounts.
func inside(m v1.VolumeMount, all []v1.VolumeMount) (out []string) {
	base := path.Clean("/"+m.MountPath) + "/"
	for _, other := range all {
		if below, ok := strings.CutPrefix(path.Clean("/"+other.MountPath), base); ok {
			out = append(out, below)
		}
	}
	return out
}
