package stats

import (
	"cmp"
	"maps"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Pod is the resource usage of a pod, by its newest sandbox.
type Pod struct {
	Namespace, Name, UID string
	// Sandbox is the ID of the sandbox, and Created its creation time.
	Sandbox string
	Created time.Time
	// Cgroup and SandboxCgroup are empty if unavailable. With a Cgroup, Usage is the usage of that
	// cgroup. Otherwise it is the runtime's figure, or the sum of the containers.
	Cgroup, SandboxCgroup string
	Usage                 Usage
	// NanoCores is the CPU rate in billionths of a processor; see Rates.
	NanoCores *uint64
	// Network is nil if unavailable and for a pod on the machine's network.
	Network *Network
	// Details are the cgroup's details, with CollectOptions.Details.
	Details *Details
	// Containers are the running containers by name, the newest of each name.
	Containers []Container
}

// Container is the resource usage of a running container.
type Container struct {
	Name, ID, Image string
	Attempt         uint32
	// Created is the creation time. Runtimes list no other time.
	Created time.Time
	Cgroup  string
	Usage   Usage
	// NanoCores is the CPU rate in billionths of a processor; see Rates.
	NanoCores *uint64
	// Writable is the usage of the container's writable layer. nil is unavailable.
	Writable *Filesystem
	// Details are the cgroup's details, with CollectOptions.Details.
	Details *Details
}

// Filesystem is the usage of a filesystem by a container, by images, or in total. A nil figure is
// unavailable.
type Filesystem struct {
	Time time.Time
	// Mountpoint is the mount point on the runtime's machine.
	Mountpoint       string
	Used, InodesUsed *uint64
	Capacity, Inodes *uint64
	Available        *uint64
	InodesFree       *uint64
}

// Running returns the pods with a ready sandbox, sorted by namespace, name and UID. It uses the
// newest ready sandbox of each pod and the newest running container of each name. Other sandboxes
// are ending or have ended.
func Running(sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) []Pod {
	newest := map[string]*runtimeapi.PodSandbox{}
	for _, s := range sandboxes {
		uid := s.GetMetadata().GetUid()
		if s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY && uid != "" && (newest[uid] == nil || newest[uid].CreatedAt < s.CreatedAt) {
			newest[uid] = s
		}
	}
	pods := map[string]*Pod{} // by sandbox
	for uid, s := range newest {
		m := s.Metadata
		pods[s.Id] = &Pod{Namespace: m.Namespace, Name: m.Name, UID: uid, Sandbox: s.Id, Created: time.Unix(0, s.CreatedAt)}
	}
	for _, c := range containers {
		if p := pods[c.GetPodSandboxId()]; p != nil && c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			p.add(Container{
				Name: c.GetMetadata().GetName(), Attempt: c.GetMetadata().GetAttempt(), ID: c.Id, Created: time.Unix(0, c.CreatedAt),
				Image: cmp.Or(c.GetImage().GetUserSpecifiedImage(), c.GetImage().GetImage()),
			})
		}
	}
	var out []Pod
	for p := range maps.Values(pods) {
		if len(p.Containers) > 0 {
			slices.SortFunc(p.Containers, func(a, b Container) int { return cmp.Compare(a.Name, b.Name) })
			out = append(out, *p)
		}
	}
	slices.SortFunc(out, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return out
}

func (p *Pod) add(c Container) {
	for i := range p.Containers {
		if have := &p.Containers[i]; have.Name == c.Name {
			if cmp.Or(cmp.Compare(have.Attempt, c.Attempt), have.Created.Compare(c.Created)) < 0 {
				*have = c
			}
			return
		}
	}
	p.Containers = append(p.Containers, c)
}
