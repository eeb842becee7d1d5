package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/cri/cgroups"
)

// cgroupFile reads a file of a cgroup, named as by cgroups.Values.Files.
func cgroupFile(t *testing.T, at, name string) string {
	t.Helper()
	controller, inside, isV1 := strings.Cut(name, "/")
	file := filepath.Join("/sys/fs/cgroup", controller, at, inside)
	if !isV1 {
		file = filepath.Join("/sys/fs/cgroup", at, name)
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return strings.TrimSpace(string(text))
}

func hostVersion() cgroups.Version {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return cgroups.V2
	}
	return cgroups.V1
}

// cpuAndMemory returns requests and limits. An empty string sets none.
func cpuAndMemory(request, limit, memory string) (r v1.ResourceRequirements) {
	r.Requests, r.Limits = v1.ResourceList{}, v1.ResourceList{}
	for _, set := range []struct {
		list v1.ResourceList
		name v1.ResourceName
		text string
	}{{r.Requests, "cpu", request}, {r.Limits, "cpu", limit}, {r.Requests, "memory", memory}, {r.Limits, "memory", memory}} {
		if set.text != "" {
			set.list[set.name] = resource.MustParse(set.text)
		}
	}
	return r
}

// N20, N21: each pod's sandbox and containers are in the pod's cgroup, which has the values of
// cri/cgroups. The cgroup is removed with the pod, also if the kubelet was killed meanwhile.
func TestCgroups(t *testing.T) {
	onRuntimes(t, "podPidsLimit: 64\n", func(t *testing.T, s *scene) {
		tree, err := cgroups.NewTree(cgroups.Cgroupfs, "/podwright-"+s.node)
		require.NoError(t, err)
		want := map[string]*v1.Pod{}
		for name, r := range map[string]v1.ResourceRequirements{
			"guaranteed": cpuAndMemory("300m", "300m", "48Mi"), "burstable": cpuAndMemory("250m", "", ""), "limited": cpuAndMemory("100m", "500m", "32Mi"), "besteffort": {},
		} {
			pod := newPod(name, shell("main", s.images.Busybox, untilTerm))
			pod.Spec.Containers[0].Resources = r
			s.writeManifest(t, name+".yaml", pod)
			want[name] = pod
		}
		paths := map[string]string{}
		for name, placed := range want {
			pod := s.running(t, name)
			placed.UID, placed.Status.QOSClass = pod.UID, pod.Status.QOSClass
			paths[name] = tree.Path(tree.Pod(placed))
			for file, value := range cgroups.ForPod(cgroups.Config{PodPids: 64}, placed).Files(hostVersion()) {
				require.Equal(t, value, cgroupFile(t, paths[name], file), "%s of %s", file, name)
			}
			for _, c := range s.mustRuntimeState(t).of(name).running() {
				require.True(t, inCgroup(paths[name], c.Id), "container of %s in the pod's cgroup", name)
			}
		}
		class := tree.Path(tree.Class(v1.PodQOSBurstable))
		wait(t, 5*time.Second, "CPU shares of the Burstable class match its pods' requests", func() error {
			for file, value := range (cgroups.Values{Shares: 256 + 102}).Files(hostVersion()) {
				if got := cgroupFile(t, class, file); got != value {
					return fmt.Errorf("%s is %s", file, got)
				}
			}
			return nil
		})
		require.Contains(t, s.log(t), "CgroupV1")

		same := s.mustRuntimeState(t).ids()
		s.kill(t)
		require.NoError(t, os.Remove(s.manifestPath("burstable.yaml")))
		s.start(t)
		wait(t, 30*time.Second, "the removed pod's cgroup is deleted", func() error {
			if inCgroup(paths["burstable"], "") {
				return errors.New("the cgroup exists")
			}
			return nil
		})
		for name := range same {
			if !strings.HasPrefix(name, "burstable/") {
				require.Equal(t, same[name], s.mustRuntimeState(t).ids()[name], name)
			}
		}
	})
}

// inCgroup reports whether the cgroup of container id is directly below the cgroup at. With id ""
// it reports whether the cgroup at exists.
func inCgroup(at, id string) bool {
	for _, hierarchy := range []string{"memory", ""} {
		if found, _ := filepath.Glob(path.Join("/sys/fs/cgroup", hierarchy, at, "*"+id+"*")); id != "" && len(found) > 0 {
			return true
		}
		if _, err := os.Stat(path.Join("/sys/fs/cgroup", hierarchy, at)); id == "" && err == nil {
			return true
		}
	}
	return false
}
