package cluster_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podwright/podwright/cri/stats"
	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

var evictionSets = flag.Int("evictions", 1, "number of pod sets of TestEvictionUpstream; one minute each, so that many sets need -timeout")

var firstEvictions = flag.Uint64("first-evictions", 0, "number of the first pod set of TestEvictionUpstream")

// This kubelet and the upstream one, each on a separate runtime, evict the pods of random sets, for
// disk and memory in alternation. The shortage persists, so that all pods are evicted one by one:
// by both kubelets in the same order and with the same messages.
func TestEvictionUpstream(t *testing.T) {
	plane, runtimes := controlplane.Of(t), tb.Runtimes(t)
	if len(runtimes) < 2 {
		t.Skip("needs two runtimes")
	}
	upstream := cmp.Or(os.Getenv(upstreamVariable), plane.Program(t, "kubelet"))
	kubeletPath(t)
	nodes := []*shortNode{newShortNode(t, plane, runtimes[0], ""), newShortNode(t, plane, runtimes[1], upstream)}
	classes := nodes[0].classes(t)
	for seed := *firstEvictions; seed < *firstEvictions+uint64(*evictionSets); seed++ {
		set := newSet(seed, classes)
		victims := make([][]victim, len(nodes))
		t.Run(fmt.Sprintf("set %d", seed), func(t *testing.T) {
			t.Run("both", func(t *testing.T) {
				for i, name := range []string{"ours", "upstream"} {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						victims[i] = nodes[i].evictAll(t, set)
					})
				}
			})
			t.Log(set.table(victims))
			require.Equal(t, victims[1], victims[0])
		})
	}
}

// shortNode is a node with 1 GiB of memory for all pods and 512 MiB of disk. It evicts below 500
// MiB of available memory and below 39 % (200 MiB) of available disk.
type shortNode struct {
	*node
	disk, memory string // tmpfs folders: the node's disk, and an unmeasured one
}

func newShortNode(t *testing.T, plane controlplane.Handle, rt tb.Runtime, binary string) *shortNode {
	n := &shortNode{disk: t.TempDir(), memory: t.TempDir()}
	for dir, size := range map[string]string{n.disk: "512m", n.memory: "700m"} {
		require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size))
		t.Cleanup(func() {
			tb.UnmountRoot(t, dir+"/root")
			require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
		})
	}
	m, err := stats.ReadMachine(os.DirFS("/proc"))
	require.NoError(t, err)
	settings := fmt.Sprintf("%ssystemReserved: {memory: \"%d\"}\nevictionHard: {memory.available: 500Mi, nodefs.available: \"39.0625%%\"}\n", fastEviction, *m.Memory-1<<30)
	flags := []string{configDir(t, settings), "--root-dir=" + n.disk + "/root"}
	if binary != "" { // by default upstream measures disks every 10 s; it creates no cgroup above its root
		flags = append(flags, "--make-iptables-util-chains=false", "--housekeeping-interval=1s")
	}
	n.node = newStoppedNode(t, plane, rt, func(n *node) { n.binary = binary }, flags...)
	if binary != "" {
		tb.MakeCgroups(t, "/podwright-"+n.name)
	}
	n.start(t)
	n.nodeReady(t)
	return n
}

// classes creates priority classes, and returns their names by value. The server accepts pods of a
// class once its admission has seen it.
func (n *shortNode) classes(t *testing.T) map[int32]string {
	out := map[int32]string{0: ""}
	for _, value := range []int32{-10, 10, 1000} {
		out[value] = fmt.Sprintf("%s-%d", n.name, value+10)
		n.do(t, "create", "priorityclass", out[value], "--value="+strconv.Itoa(int(value)))
		t.Cleanup(func() { n.do(t, "delete", "priorityclass", out[value]) })
		pod := podManifest("any", "\n  priorityClassName: "+out[value]+"\n  containers: [{name: c, image: any}]")
		n.until(t, "the server accepts pods of the class", func() error {
			_, err := n.run([]byte(pod), "create", "--dry-run=server", "-f", "-")
			return err
		})
	}
	return out
}

// set is a set of pods with the resource that their node runs out of.
type set struct {
	of   v1.ResourceName
	pods []member
}

// member is a pod that uses and requests amounts of the short resource, in MiB.
type member struct {
	name, class   string
	priority      int32
	qos           v1.PodQOSClass
	uses, request int64
}

// newSet returns five pods. Their usages beyond requests are at least 8 MiB apart, which is more
// than the measurements differ.
func newSet(seed uint64, classes map[int32]string) set {
	r := rand.New(rand.NewPCG(seed, 17))
	s := set{of: v1.ResourceEphemeralStorage}
	if seed%2 == 1 {
		s.of = v1.ResourceMemory
	}
	priorities := []int32{-10, 0, 0, 10, 1000}
	for i, k := range r.Perm(5) {
		m := member{name: fmt.Sprintf("pod-%d", i), priority: priorities[r.IntN(len(priorities))], qos: v1.PodQOSBestEffort}
		m.class = classes[m.priority]
		beyond := int64(k+1) * 8
		switch r.IntN(3) {
		case 0: // no request
			m.uses = beyond
		case 1:
			m.qos, m.request = v1.PodQOSBurstable, 8+r.Int64N(8)
			m.uses = m.request + beyond
		default:
			m.qos, m.uses = v1.PodQOSBurstable, 8+r.Int64N(8)
			m.request = m.uses + beyond
			if r.IntN(2) == 0 {
				m.qos = v1.PodQOSGuaranteed
			}
		}
		s.pods = append(s.pods, m)
	}
	return s
}

// pod returns the pod of a member. Pods of a QoS class above BestEffort get it from their requests
// of memory or of a resource that is not short.
func (s set) pod(m member, image, node string) *v1.Pod {
	mib := func(n int64) resource.Quantity { return *resource.NewQuantity(n<<20, resource.BinarySI) }
	volume, list := &v1.EmptyDirVolumeSource{}, v1.ResourceList{}
	if m.request > 0 {
		list[s.of] = mib(m.request)
	}
	limits := v1.ResourceList{}
	switch {
	case s.of == v1.ResourceMemory:
		volume.Medium = v1.StorageMediumMemory
	case m.qos != v1.PodQOSBestEffort:
		list[v1.ResourceMemory] = mib(32)
	}
	if m.qos == v1.PodQOSGuaranteed {
		list[v1.ResourceCPU] = resource.MustParse("10m")
		limits[v1.ResourceCPU], limits[v1.ResourceMemory] = list[v1.ResourceCPU], list[v1.ResourceMemory]
	}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: m.name}, Spec: v1.PodSpec{
		NodeName: node, PriorityClassName: m.class, RestartPolicy: v1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(1)),
		Volumes: []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: volume}}},
		Containers: []v1.Container{{
			Name: "c", Image: image, Command: []string{"sh", "-c", fmt.Sprintf("head -c %d /dev/zero > /v/f; sleep 3600", m.uses<<20)},
			VolumeMounts: []v1.VolumeMount{{Name: "v", MountPath: "/v"}}, Resources: v1.ResourceRequirements{Requests: list, Limits: limits},
		}},
	}}
}

// victim is an evicted pod with its message, without amounts.
type victim struct{ name, message string }

var amounts = regexp.MustCompile(`\b\d+[A-Za-z]*\b`)

// evictAll runs the pods of a set, makes their resource short on the node, and returns the victims
// in order.
func (n *shortNode) evictAll(t *testing.T, s set) (out []victim) {
	for _, m := range s.pods {
		n.create(t, s.pod(m, n.images.Busybox, n.name))
	}
	n.until(t, "the kubelet reports the usage of all pods", func() error { return n.usageReported(s) })
	w := n.watchPods(t)
	free := n.fill(t, s.of)
	var evicted []*v1.Pod
	n.until(t, "all pods are evicted", func() error {
		evicted = nil
		for _, m := range s.pods {
			versions := w.versions(m.name)
			if i := slices.IndexFunc(versions, func(pod *v1.Pod) bool { return pod.Status.Phase == v1.PodFailed }); i >= 0 {
				require.Equal(t, "Evicted", versions[i].Status.Reason, "%s: %s", m.name, versions[i].Status.Message)
				evicted = append(evicted, versions[i])
			}
		}
		if len(evicted) < len(s.pods) {
			return fmt.Errorf("%d pods are evicted", len(evicted))
		}
		return nil
	})
	slices.SortFunc(evicted, func(a, b *v1.Pod) int { return cmp.Compare(version(t, a), version(t, b)) })
	for _, pod := range evicted {
		out = append(out, victim{pod.Name, amounts.ReplaceAllString(pod.Status.Message, "N")})
	}
	free()
	n.do(t, "delete", "pods", "--all", "--wait=false")
	n.until(t, "the pods are deleted and the pressure has ended", func() error {
		conditions := n.get(t, "node", n.name, `{.status.conditions[?(@.type=="DiskPressure")].status} {.status.conditions[?(@.type=="MemoryPressure")].status}`)
		if left := len(n.pods(t)); left > 0 || conditions != "False False" {
			return fmt.Errorf("%d pods, %s", left, conditions)
		}
		return n.empty()
	})
	return out
}

// version returns the resource version of a pod, which grows with each write.
func version(t *testing.T, pod *v1.Pod) uint64 {
	t.Helper()
	number, err := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	require.NoError(t, err)
	return number
}

// usageReported returns an error unless the kubelet reports the usage of each pod.
func (n *shortNode) usageReported(s set) error {
	var summary statsapi.Summary
	if found, err := n.reader.read("/api/v1/nodes/"+n.name+"/proxy/stats/summary", &summary); err != nil || !found {
		return fmt.Errorf("summary found: %t: %w", found, err)
	}
	reported := map[string]uint64{}
	for _, pod := range summary.Pods {
		if pod.PodRef.Namespace != n.namespace {
			continue
		}
		for _, v := range pod.VolumeStats {
			if v.Name == "v" && v.UsedBytes != nil {
				reported[pod.PodRef.Name] = *v.UsedBytes
			}
		}
		if s.of == v1.ResourceMemory {
			reported[pod.PodRef.Name] = 0
			if pod.Memory != nil && pod.Memory.WorkingSetBytes != nil {
				reported[pod.PodRef.Name] = *pod.Memory.WorkingSetBytes
			}
		}
	}
	for _, m := range s.pods {
		if reported[m.name] < uint64(m.uses)<<20 {
			return fmt.Errorf("want %d MiB of %s, have %v", m.uses, m.name, reported)
		}
	}
	return nil
}

// fill uses more of the resource than evictions can free: of the disk, or of the memory of all
// pods, by a process in their cgroup.
func (n *shortNode) fill(t *testing.T, of v1.ResourceName) (free func()) {
	file, join, much := n.disk+"/ballast", "", 330
	if of == v1.ResourceMemory {
		file, join, much = n.memory+"/ballast", "echo $$ > /sys/fs/cgroup/memory/podwright-"+n.name+"/kubepods/cgroup.procs; ", 600
	}
	out, err := exec.Command("sh", "-ec", fmt.Sprintf("%shead -c %dM /dev/zero > %s", join, much, file)).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return func() { require.NoError(t, os.Remove(file)) }
}

// table formats a set with the order of its evictions by both kubelets.
func (s set) table(victims [][]victim) string {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\npod\tpriority\tQoS\tuses\trequest\tours\tupstream\n", s.of)
	for _, m := range s.pods {
		fmt.Fprintf(w, "%s\t%d\t%s\t%d MiB\t%d MiB", m.name, m.priority, m.qos, m.uses, m.request)
		for _, list := range victims {
			fmt.Fprintf(w, "\t%d", 1+slices.IndexFunc(list, func(v victim) bool { return v.name == m.name }))
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // into memory
	return text.String()
}
