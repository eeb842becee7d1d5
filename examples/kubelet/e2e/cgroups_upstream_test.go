package e2e_test

import (
	"errors"
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
)

// podShapes returns pods of each QoS class, by name, with all settings that affect their cgroups.
func podShapes(s *scene) map[string]*v1.Pod {
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
		return v1.ResourceRequirements{Requests: cpuAndMemory(r[0], "", r[1]).Requests, Limits: cpuAndMemory("", l[0], l[1]).Limits}
	}
	for _, requests := range []string{"none", "cpu", "memory", "both"} {
		for _, limits := range []string{"none", "more", "both", "large"} {
			if requests == "memory" && limits == "large" {
				continue // duplicates
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
				p.Resources.Limits = cpuAndMemory("", "1", "100Mi").Limits
				p.Resources.Requests = cpuAndMemory("40m", "", "60Mi").Requests
			}
		})
		add("pod-guaranteed-"+kind, func(p *v1.PodSpec) {
			p.Resources = new(cpuAndMemory("38m", "38m", "64Mi"))
			p.Containers[0].Resources = resources(kind, kind)
		})
	}
	return out
}

// cgroupValues returns the values of all cgroup files that a kubelet writes, of pods and of QoS
// classes, by path below the kubelet's root.
func cgroupValues(root string) map[string]string {
	out := map[string]string{}
	for _, pattern := range []string{"cpu/*/cpu.shares", "cpu/*/cpu.cfs_*_us", "memory/*/memory.limit_in_bytes", "pids/*/pids.max", "hugetlb/*/hugetlb.*.limit_in_bytes"} {
		for _, at := range []string{"kubepods", "kubepods/pod*", "kubepods/burstable", "kubepods/besteffort", "kubepods/burstable/pod*", "kubepods/besteffort/pod*"} {
			files, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", strings.Replace(pattern, "*", root+"/"+at, 1)))
			for _, file := range files {
				text, _ := os.ReadFile(file)
				out[file] = strings.TrimSpace(string(text))
			}
		}
	}
	return out
}

// takeoverPods are pods of each shape on one of the two kubelets, for a takeover by the second one.
type takeoverPods struct {
	*scene
	pods map[string]*v1.Pod
	root string
}

// startPods starts the pods. It returns the values of their cgroups, and a function that returns an
// error if their containers changed.
func (m *takeoverPods) startPods(t *testing.T) (values map[string]string, same func() error) {
	t.Helper()
	for name, pod := range m.pods {
		m.scene.writeManifest(t, name+".yaml", pod)
	}
	wait(t, time.Minute, "all pods run", func() error {
		w, err := m.runtimeState()
		run := w.ids()
		for name, pod := range m.pods {
			for _, c := range pod.Spec.Containers {
				if err == nil && run[name+"/"+c.Name] == "" {
					err = fmt.Errorf("%s/%s does not run", name, c.Name)
				}
			}
		}
		return err
	})
	time.Sleep(time.Second) // cgroups of classes follow their pods
	before := m.mustRuntimeState(t).ids()
	return cgroupValues(m.root), func() error {
		w, err := m.runtimeState()
		if other := diffValues(w.ids(), before); err == nil && len(other) > 0 {
			err = fmt.Errorf("%q", other)
		}
		return err
	}
}

// remove ends the pods and waits until all their remains are removed.
func (m *takeoverPods) remove(t *testing.T) {
	t.Helper()
	for name := range m.pods {
		require.NoError(t, os.Remove(m.manifestPath(name+".yaml")))
	}
	wait(t, time.Minute, "all pods are removed", func() error { return errors.Join(m.empty(), m.noCgroups()) })
}

// diffValues returns the keys with different values.
func diffValues(a, b map[string]string) (out []string) {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if a[key] != b[key] {
			out = append(out, fmt.Sprintf("%s: %q and %q", key, a[key], b[key]))
		}
	}
	return out
}

// For pods of each shape the cgroups equal the upstream kubelet's, and each of the two kubelets
// takes over the pods of its counterpart without a restart or a changed value.
func TestCgroupsEqualUpstreams(t *testing.T) {
	withUpstream(t, func(t *testing.T, s *scene, u *upstream) {
		m := &takeoverPods{scene: s, pods: podShapes(s), root: "/podwright-" + s.node}
		require.GreaterOrEqual(t, len(m.pods), 40)
		s.start(t)
		ours, same := m.startPods(t)
		require.Zero(t, s.terminate(t, 30*time.Second))
		u.start(t)
		consistently(t, 20*time.Second, "the upstream kubelet restarts no container", same)
		wait(t, 90*time.Second, "the cgroup values are unchanged", func() error { // upstream updates all pods together once a minute
			if other := diffValues(ours, cgroupValues(m.root)); len(other) > 0 {
				return fmt.Errorf("%q", other)
			}
			return same()
		})
		u.stop(t, syscall.SIGTERM)
		s.start(t)
		m.remove(t)
		require.Zero(t, s.terminate(t, 30*time.Second))

		u.start(t)
		theirs, same := m.startPods(t)
		u.stop(t, syscall.SIGTERM)
		require.Greater(t, len(theirs), 5*len(m.pods))
		require.Empty(t, diffValues(ours, theirs))
		s.start(t)
		consistently(t, 15*time.Second, "this kubelet restarts no container", same)
		require.Empty(t, diffValues(cgroupValues(m.root), theirs), "after the takeover by this kubelet")
	})
}
