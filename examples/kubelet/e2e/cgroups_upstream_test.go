package e2e_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/testbed/tb"
)

// shapes are pods of every class, by name, with all that counts for their cgroups.
func shapes(s *scene) map[string]*v1.Pod {
	out := map[string]*v1.Pod{}
	add := func(name string, change func(*v1.PodSpec)) {
		pod := newPod(name, shell("main", s.images.Busybox, untilTerm))
		pod.Namespace = "default"
		pod.UID = types.UID(fmt.Sprintf("%s-0000-0000-0001-%012d", s.node[1:], len(out)))
		change(&pod.Spec)
		out[name] = pod
	}
	lists := map[string][2]string{"none": {}, "cpu": {"5m", ""}, "memory": {"", "24Mi"}, "both": {"8m", "32Mi"}, "more": {"35m", "48Mi"}, "large": {"", "40Mi"}}
	resources := func(requests, limits string) v1.ResourceRequirements {
		r, l := lists[requests], lists[limits]
		return v1.ResourceRequirements{Requests: ofCPU(r[0], "", r[1]).Requests, Limits: ofCPU("", l[0], l[1]).Limits}
	}
	for _, requests := range []string{"none", "cpu", "memory", "both"} {
		for _, limits := range []string{"none", "more", "both", "large"} {
			if requests == "memory" && limits == "large" {
				continue // nothing new
			}
			name := requests + "-" + limits
			add(name, func(p *v1.PodSpec) { p.Containers[0].Resources = resources(requests, limits) })
			add(name+"-and-none", func(p *v1.PodSpec) {
				p.Containers[0].Resources = resources(requests, limits)
				p.Containers = append(p.Containers, shell("other", s.images.Busybox, untilTerm))
			})
		}
	}
	always := v1.ContainerRestartPolicyAlways
	for _, kind := range []string{"none", "both", "more"} {
		add("init-"+kind, func(p *v1.PodSpec) {
			p.Containers[0].Resources = resources("both", "both")
			p.InitContainers = []v1.Container{shell("init", s.images.Busybox, "exit 0")}
			p.InitContainers[0].Resources = resources(kind, kind)
		})
		add("sidecar-"+kind, func(p *v1.PodSpec) {
			p.Containers[0].Resources = resources("both", "both")
			p.InitContainers = []v1.Container{shell("side", s.images.Busybox, untilTerm), shell("init", s.images.Busybox, "exit 0")}
			p.InitContainers[0].RestartPolicy = &always
			p.InitContainers[0].Resources = resources(kind, kind)
			p.InitContainers[1].Resources = resources("more", "more")
		})
		add("pod-"+kind, func(p *v1.PodSpec) {
			p.Resources = new(resources("both", "more"))
			p.Containers[0].Resources = resources(kind, kind)
			if kind == "more" {
				p.Resources.Limits = ofCPU("", "1", "100Mi").Limits
				p.Resources.Requests = ofCPU("40m", "", "60Mi").Requests
			}
		})
		add("pod-guaranteed-"+kind, func(p *v1.PodSpec) {
			p.Resources = new(ofCPU("38m", "38m", "64Mi"))
			p.Containers[0].Resources = resources(kind, kind)
		})
	}
	return out
}

// cgroupValues are the values in all files that a kubelet writes, of pods and of classes, by path
// below the kubelet's root.
func cgroupValues(root string) map[string]string {
	out := map[string]string{}
	for _, pattern := range []string{"cpu/*/cpu.shares", "cpu/*/cpu.cfs_*_us", "memory/*/memory.limit_in_bytes", "pids/*/pids.max", "hugetlb/*/hugetlb.*.limit_in_bytes"} {
		for _, at := range []string{"kubepods/pod*", "kubepods/burstable", "kubepods/besteffort", "kubepods/burstable/pod*", "kubepods/besteffort/pod*"} {
			files, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", strings.Replace(pattern, "*", root+"/"+at, 1)))
			for _, file := range files {
				text, _ := os.ReadFile(file)
				out[file] = strings.TrimSpace(string(text))
			}
		}
	}
	return out
}

// The cgroups of pods of every shape are those that the upstream kubelet makes.
func TestCgroupsEqualUpstreams(t *testing.T) {
	besideUpstream(t, func(t *testing.T, s *scene, u *upstream) {
		pods := shapes(s)
		require.GreaterOrEqual(t, len(pods), 40)
		root := "/podwright-" + s.node
		place := func() map[string]string {
			for name, pod := range pods {
				s.place(t, name+".yaml", pod)
			}
			wait(t, time.Minute, "all pods run", func() error {
				w, err := s.look()
				for name, pod := range pods {
					if n := len(w.of(name).running()); err == nil && n < len(pod.Spec.Containers) {
						err = fmt.Errorf("%s: %d containers run", name, n)
					}
				}
				return err
			})
			time.Sleep(time.Second) // classes follow their pods
			return cgroupValues(root)
		}
		s.start(t)
		ours := place()
		for name := range pods {
			require.NoError(t, os.Remove(s.manifest(name+".yaml")))
		}
		wait(t, time.Minute, "all pods go", func() error {
			w, err := s.look()
			if left := tb.PodCgroups(root); err == nil && len(left) > 0 {
				err = fmt.Errorf("%d cgroups", len(left))
			}
			if err == nil {
				err = w.empty()
			}
			return err
		})
		require.Zero(t, s.terminate(t, 30*time.Second))
		u.start(t)
		theirs := place()
		u.end(t, syscall.SIGTERM)
		require.Greater(t, len(theirs), 5*len(pods))
		var differ []string
		for _, file := range slices.Sorted(maps.Keys(theirs)) {
			if ours[file] != theirs[file] {
				differ = append(differ, fmt.Sprintf("%s: %q, upstream %q", file, ours[file], theirs[file]))
			}
		}
		require.Empty(t, differ, "%d of %d", len(differ), len(theirs))
		require.Len(t, ours, len(theirs))
	})
}
