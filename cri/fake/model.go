package fake

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"syscall"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// labelPodUID is the label with the pod UID of an object.
const labelPodUID = "io.kubernetes.pod.uid"

// Reasons of exited containers.
const (
	reasonCompleted  = "Completed"
	reasonError      = "Error"
	reasonOOMKilled  = "OOMKilled"
	reasonStartError = "StartError"
	// reasonUnknown and exitUnknown belong to an unseen end.
	reasonUnknown = "Unknown"
	exitUnknown   = 255
	// exitStartError is the exit code of a container that could not start.
	exitStartError = 128
)

// sandboxName is the reserved name of a sandbox.
type sandboxName struct {
	name, namespace, uid string
	attempt              uint32
}

func (n sandboxName) String() string {
	return join(n.name, n.namespace, n.uid, n.attempt)
}

// containerName is the reserved name of a container. It does not contain the sandbox's attempt, so
// a successor sandbox conflicts with the names of its predecessor.
type containerName struct {
	name, podName, namespace, uid string
	attempt                       uint32
}

func (n containerName) String() string {
	return n.name + "_" + join(n.podName, n.namespace, n.uid, n.attempt)
}

// sandboxState is the mutable part of a sandbox's status. A copy of it, with the immutable rest,
// gives the status at an earlier moment. Its slices are replaced, never written to.
type sandboxState struct {
	ready bool
	ips   []string
}

// containerState is the mutable part of a container's status.
type containerState struct {
	state      runtimeapi.ContainerState
	startedAt  int64
	finishedAt int64
	exitCode   int32
	reason     string
	message    string
	resources  *runtimeapi.LinuxContainerResources
}

// sandbox is a pod sandbox. Fields after the blank line are guarded by Runtime.mu.
type sandbox struct {
	id        string
	name      sandboxName
	config    *runtimeapi.PodSandboxConfig
	handler   string
	createdAt int64
	hostNet   bool

	sandboxState
	stopping   bool // no further container may start
	resources  *runtimeapi.LinuxContainerResources
	overhead   *runtimeapi.LinuxContainerResources
	forwards   map[context.Context]context.CancelCauseFunc // port-forward sessions; may be nil
	containers ring[*container]
	inAll      node[*sandbox]
	inPod      node[*sandbox]
}

// container is a container. Fields after the blank line are guarded by Runtime.mu.
type container struct {
	id         string
	name       containerName
	sandbox    *sandbox
	config     *runtimeapi.ContainerConfig // without its environment
	env        []string                    // see envOf
	image      resolvedImage
	logPath    string
	createdAt  int64
	stopSignal syscall.Signal

	containerState
	starting  bool // StartContainer is in progress
	removing  bool // RemoveContainer is in progress
	signalled bool // the stop signal was sent
	// endedUnseen is true if the container ended while the runtime was down.
	endedUnseen bool
	task        *task
	log         *logFile
	streams     *containerIO
	execs       map[*task]struct{}
	inAll       node[*container]
	inSandbox   node[*container]
	inPod       node[*container]
}

// newID returns an ID in the form of real runtimes. IDs must be distinct, not secret.
func newID() string {
	var raw [32]byte
	for i := 0; i < len(raw); i += 8 {
		n := rand.Uint64()
		for j := range 8 {
			raw[i+j] = byte(n >> (8 * j))
		}
	}
	var text [2 * len(raw)]byte
	hex.Encode(text[:], raw[:])
	return string(text[:])
}

func nameOfSandbox(m *runtimeapi.PodSandboxMetadata) sandboxName {
	return sandboxName{name: m.GetName(), namespace: m.GetNamespace(), uid: m.GetUid(), attempt: m.GetAttempt()}
}

func nameOfContainer(m *runtimeapi.ContainerMetadata, pod *runtimeapi.PodSandboxMetadata) containerName {
	return containerName{
		name: m.GetName(), podName: pod.GetName(), namespace: pod.GetNamespace(), uid: pod.GetUid(),
		attempt: m.GetAttempt(),
	}
}

func hostNetwork(config *runtimeapi.PodSandboxConfig) bool {
	return config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
}

func logPathOf(pod *runtimeapi.PodSandboxConfig, config *runtimeapi.ContainerConfig) string {
	if pod.GetLogDirectory() == "" || config.GetLogPath() == "" {
		return ""
	}
	return filepath.Join(pod.GetLogDirectory(), config.GetLogPath())
}

func commandLine(config *runtimeapi.ContainerConfig) []string {
	args := make([]string, 0, len(config.GetCommand())+len(config.GetArgs()))
	return append(append(args, config.GetCommand()...), config.GetArgs()...)
}

// ended sets the state after the end of the container's process.
func (c *container) ended(e exit, now int64) {
	c.state = runtimeapi.ContainerState_CONTAINER_EXITED
	c.finishedAt, c.exitCode = now, e.code
	c.message = e.message
	c.task, c.log, c.streams = nil, nil, nil
	switch {
	case e.reason != "":
		c.reason = e.reason
	case e.oom:
		c.reason = reasonOOMKilled
	case e.code == 0:
		c.reason = reasonCompleted
	default:
		c.reason = reasonError
	}
}

func (c *container) running() bool {
	return c.state == runtimeapi.ContainerState_CONTAINER_RUNNING
}

// hasLabels reports whether labels contain all of selector.
func hasLabels(labels, selector map[string]string) bool {
	for key, want := range selector {
		if got, ok := labels[key]; !ok || got != want {
			return false
		}
	}
	return true
}

func (c *container) matches(f *runtimeapi.ContainerFilter) bool {
	return (f.GetId() == "" || f.GetId() == c.id) &&
		(f.GetPodSandboxId() == "" || f.GetPodSandboxId() == c.sandbox.id) &&
		(f.GetState() == nil || f.GetState().GetState() == c.state) &&
		hasLabels(c.config.Labels, f.GetLabelSelector())
}

func (b *sandbox) matches(f *runtimeapi.PodSandboxFilter) bool {
	return (f.GetId() == "" || f.GetId() == b.id) &&
		(f.GetState() == nil || f.GetState().GetState() == b.readiness()) &&
		hasLabels(b.config.Labels, f.GetLabelSelector())
}

func (b sandboxState) readiness() runtimeapi.PodSandboxState {
	if b.ready {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

// info returns the verbose part of a status: one JSON document, as in containerd.
func info(document any) (map[string]string, error) {
	raw, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	return map[string]string{"info": string(raw)}, nil
}
