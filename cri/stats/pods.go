package stats

import (
	"cmp"
	"maps"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Pod is what a pod uses, by its newest sandbox.
type Pod struct {
	Namespace, Name, UID string
	// Sandbox is the ID of the sandbox, which was made at Created.
	Sandbox string
	Created time.Time
	// Cgroup and SandboxCgroup are empty where they are not known. Of a pod with a Cgroup
	// Usage is that of all that is in it, else the runtime's word, or the sum of the containers.
	Cgroup, SandboxCgroup string
	Usage                 Usage
	// NanoCores is how many processors it keeps busy, in billionths; see Rates.
	NanoCores *uint64
	// Network is nil for a pod on the machine's own network, and where it is not known.
	Network *Network
	// Details are read with Wanted.Details, of the cgroup.
	Details *Details
	// Containers are those that run, by name: the newest where there are several.
	Containers []Container
}

// Container is what a running container uses.
type Container struct {
	Name, ID, Image string
	Attempt         uint32
	// Created is when it was made. Runtimes list no other time.
	Created time.Time
	Cgroup  string
	Usage   Usage
	// NanoCores is how many processors it keeps busy, in billionths; see Rates.
	NanoCores *uint64
	// Writable is the layer that the container writes to, nil if that is not known.
	Writable *Filesystem
	// Details are read with Wanted.Details, of the cgroup.
	Details *Details
}

// Filesystem is what is used of a file system by a container, by images, or by all. A
// figure that is nil is not known.
type Filesystem struct {
	Time time.Time
	// Mountpoint is where it is, on the machine of the runtime.
	Mountpoint       string
	Used, InodesUsed *uint64
	Capacity, Inodes *uint64
	Available        *uint64
	InodesFree       *uint64
}

// Running are the pods with containers that run: of each the newest sandbox that is ready,
// and by name its newest container, sorted by namespace, name and UID. What is listed of
// other sandboxes ends, or has ended.
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
