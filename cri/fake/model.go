package fake

import (
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"syscall"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// labelPodUID is the label by which everything of one pod is found.
const labelPodUID = "io.kubernetes.pod.uid"

// The reasons of exited containers.
const (
	reasonCompleted  = "Completed"
	reasonError      = "Error"
	reasonOOMKilled  = "OOMKilled"
	reasonStartError = "StartError"
	// exitStartError is the exit code of a container that could not start.
	exitStartError = 128
)

// sandboxName is what runtimes reserve for a sandbox.
type sandboxName struct {
	name, namespace, uid string
	attempt              uint32
}

func (n sandboxName) String() string {
	return join(n.name, n.namespace, n.uid, n.attempt)
}

// containerName is what runtimes reserve for a container. The sandbox's attempt
// is not in it, so a successor sandbox meets the names of its predecessor.
type containerName struct {
	name, podName, namespace, uid string
	attempt                       uint32
}

func (n containerName) String() string {
	return n.name + "_" + join(n.podName, n.namespace, n.uid, n.attempt)
}

// sandbox is a pod sandbox. Fields after the blank line are guarded by Runtime.mu.
type sandbox struct {
	id        string
	name      sandboxName
	config    *runtimeapi.PodSandboxConfig
	handler   string
	createdAt int64
	hostNet   bool

	ready      bool
	stopping   bool // no container may start any more
	ips        []string
	resources  *runtimeapi.LinuxContainerResources
	overhead   *runtimeapi.LinuxContainerResources
	containers ring[*container]
	inAll      node[*sandbox]
	inPod      node[*sandbox]
}

// container is a container. Fields after the blank line are guarded by Runtime.mu.
type container struct {
	id         string
	name       containerName
	sandbox    *sandbox
	config     *runtimeapi.ContainerConfig
	image      resolvedImage
	logPath    string
	createdAt  int64
	stopSignal syscall.Signal

	state      runtimeapi.ContainerState
	startedAt  int64
	finishedAt int64
	exitCode   int32
	reason     string
	message    string
	resources  *runtimeapi.LinuxContainerResources
	starting   bool // StartContainer is under way
	removing   bool // RemoveContainer is under way
	signalled  bool // the stop signal has been sent
	task       *task
	log        *logFile
	execs      map[*task]struct{}
	inAll      node[*container]
	inSandbox  node[*container]
	inPod      node[*container]
}

// newID makes an ID of the form that runtimes use. IDs need to be distinct, not
// secret.
func newID() string {
	var raw [32]byte
	for i := 0; i < len(raw); i += 8 {
		n := rand.Uint64()
		for j := range 8 {
			raw[i+j] = byte(n >> (8 * j))
		}
	}
	return hex.EncodeToString(raw[:])
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

// logPathOf is where a container logs, "" when nothing is to be kept.
func logPathOf(pod *runtimeapi.PodSandboxConfig, config *runtimeapi.ContainerConfig) string {
	if pod.GetLogDirectory() == "" || config.GetLogPath() == "" {
		return ""
	}
	return filepath.Join(pod.GetLogDirectory(), config.GetLogPath())
}

// commandLine is what the container runs.
func commandLine(config *runtimeapi.ContainerConfig) []string {
	args := make([]string, 0, len(config.GetCommand())+len(config.GetArgs()))
	return append(append(args, config.GetCommand()...), config.GetArgs()...)
}

// ended fills in the end of the container's process.
func (c *container) ended(e exit, now int64) {
	c.state = runtimeapi.ContainerState_CONTAINER_EXITED
	c.finishedAt, c.exitCode = now, e.code
	c.task, c.log = nil, nil
	switch {
	case e.oom:
		c.reason = reasonOOMKilled
	case e.code == 0:
		c.reason = reasonCompleted
	default:
		c.reason = reasonError
	}
}

// notStarted fills in a start that failed.
func (c *container) notStarted(err error, now int64) {
	c.state = runtimeapi.ContainerState_CONTAINER_EXITED
	c.finishedAt, c.exitCode = now, exitStartError
	c.reason, c.message = reasonStartError, err.Error()
}

func (c *container) running() bool {
	return c.state == runtimeapi.ContainerState_CONTAINER_RUNNING
}

// hasLabels tells whether labels contain all of selector.
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
		(f.GetState() == nil || f.GetState().GetState() == b.state()) &&
		hasLabels(b.config.Labels, f.GetLabelSelector())
}

func (b *sandbox) state() runtimeapi.PodSandboxState {
	if b.ready {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

// info is the verbose part of a status, one JSON document as containerd has it.
func info(document any) (map[string]string, error) {
	raw, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	return map[string]string{"info": string(raw)}, nil
}
