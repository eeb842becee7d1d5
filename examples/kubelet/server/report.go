package server

import "time"

// Report is the state of all pods with its reasons. It is the JSON of /statusz/pods.
type Report struct {
	Node string `json:"node"`
	// Version is the kubelet's version, such as "v1.36.3+podwright.v0.1.0".
	Version string    `json:"version"`
	Time    time.Time `json:"time"`
	Checks  []Check   `json:"checks"`
	// Pods are sorted by namespace and name.
	Pods []PodReport `json:"pods"`
	// Manifests are the files that are not used in their current version.
	Manifests []ManifestProblem `json:"manifests,omitempty"`
	// Objects are the files of --objects-dir that are not used in their current version.
	Objects []ObjectProblem `json:"objects,omitempty"`
	// Probers are the handlers of probes, with their load.
	Probers []ProberReport `json:"probers,omitempty"`
}

// ProberReport is the load of one handler of probes.
type ProberReport struct {
	// Handler is one of "exec", "httpGet", "tcpSocket" and "grpc".
	Handler string `json:"handler"`
	// Budget is the maximum number of concurrent probes, Running their current number. Slow is the
	// number of running probes that needed half of their timeout or more the last time. Stuck is
	// the number of running probes beyond their timeout.
	Budget  int `json:"budget"`
	Running int `json:"running"`
	Slow    int `json:"slow"`
	Stuck   int `json:"stuck"`
	// Queued is the number of due probes that wait for the budget. Late is the longest wait, in
	// seconds.
	Queued int     `json:"queued"`
	Late   float64 `json:"lateSeconds"`
}

// Check is one part of the agent's health.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Message is the failure and its start.
	Message string `json:"message,omitempty"`
}

// PodReport is the state of one pod.
type PodReport struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Manifest is the file or the URL of the pod's manifest, or empty without one.
	Manifest string `json:"manifest,omitempty"`
	// Phase is the pod's phase, or empty for a pod that only the runtime lists.
	Phase string `json:"phase,omitempty"`
	// Reason is the reason of the phase with its message, such as "Evicted: The node was low on
	// resource: memory". It is empty for most phases.
	Reason string `json:"reason,omitempty"`
	// Worker is the state of the pod's worker, such as Syncing or Terminating.
	Worker string `json:"worker"`
	// Step is the current step of the worker.
	Step string `json:"step,omitempty"`
	// Since is the start of the current state or step.
	Since time.Time `json:"since"`
	// Why is the reason why not all of its containers run, such as "init container a is running",
	// and the images that it waits for, one per line.
	Why string `json:"why,omitempty"`
	// Parts are the unfinished resources on the node and status sinks, one per line.
	Parts []string `json:"parts,omitempty"`
	// LastError is the newest error. A successful call clears it.
	LastError string `json:"lastError,omitempty"`
	// NextRetry is the time of the worker's next sync without other events.
	NextRetry *time.Time `json:"nextRetry,omitempty"`
	// WaitsFor is the event that the worker waits for.
	WaitsFor string `json:"waitsFor,omitempty"`
	// NotReady is the reason why the pod is not ready, such as "ContainersNotReady: ...". It is
	// empty for ready and ended pods.
	NotReady string `json:"notReady,omitempty"`
	// HostIP is the address of the node. PodIPs are the addresses of the pod.
	HostIP string   `json:"hostIP,omitempty"`
	PodIPs []string `json:"podIPs,omitempty"`
	// LogDir is the folder of the pod's logs.
	LogDir string `json:"logDir,omitempty"`
	// Logs are the ends of the containers' logs. They are read for the page of one pod only.
	// LogsHidden is the reason why that page omits them.
	Logs       []LogReport `json:"logs,omitempty"`
	LogsHidden string      `json:"logsHidden,omitempty"`
	// Events are the pod's newest Kubernetes events, the newest first.
	Events []EventReport `json:"events,omitempty"`
	// Containers are the init containers, the containers and the ephemeral containers.
	Containers []ContainerReport `json:"containers,omitempty"`
	// Volumes are the volumes of its containers, and leftover ones.
	Volumes []VolumeReport `json:"volumes,omitempty"`
	// Probes are sorted by container and type.
	Probes []ProbeReport `json:"probes,omitempty"`
}

// VolumeReport is the state of a volume of a pod.
type VolumeReport struct {
	Name string `json:"name"`
	// Plugin is a name such as "kubernetes.io/configmap". State is a state such as "Mounted".
	Plugin string `json:"plugin,omitempty"`
	State  string `json:"state"`
	// Ready is true if containers may use the volume.
	Ready bool `json:"ready"`
	// WaitsFor is the next step or its precondition. It is empty without one.
	WaitsFor string `json:"waitsFor,omitempty"`
	// Operation is the running operation, started at RunningSince. Stuck is true if it should have
	// ended.
	Operation    string     `json:"operation,omitempty"`
	RunningSince *time.Time `json:"runningSince,omitempty"`
	Stuck        bool       `json:"stuck,omitempty"`
	// LastError is the newest error, until an operation succeeds. NextTry is the time of the retry.
	LastError string     `json:"lastError,omitempty"`
	NextTry   *time.Time `json:"nextTry,omitempty"`
}

// ProbeReport is the state of one probe of a pod and its last result.
type ProbeReport struct {
	Container string `json:"container"`
	// Type is "Liveness", "Readiness" or "Startup". Handler is "exec", "httpGet", "tcpSocket" or
	// "grpc".
	Type    string `json:"type"`
	Handler string `json:"handler"`
	// State is the state of the probe, such as "Scheduled" or "Waiting". Why is the reason of the
	// wait or of its end.
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
	// Next is the time of the next check.
	Next *time.Time `json:"next,omitempty"`
	// Period and Timeout are in seconds.
	Period  float64 `json:"periodSeconds"`
	Timeout float64 `json:"timeoutSeconds"`
	// Result is "Success", "Failure" or "Unknown". It changes when Consecutive reaches Threshold.
	Result      string `json:"result"`
	Consecutive int32  `json:"consecutive"`
	Threshold   int32  `json:"threshold"`
	// Last is the result of the last check, at LastAt, which took LastTook seconds. Output is the
	// beginning of its output. "Unknown" means that the container could not be probed.
	Last     string     `json:"last,omitempty"`
	LastAt   *time.Time `json:"lastAt,omitempty"`
	LastTook float64    `json:"lastTookSeconds,omitempty"`
	Output   string     `json:"output,omitempty"`
}

// ContainerReport is the short form of a container's status.
type ContainerReport struct {
	Name string `json:"name"`
	// Kind is "init", "sidecar" or "ephemeral", or empty for other containers.
	Kind     string `json:"kind,omitempty"`
	State    string `json:"state"`
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
	Restarts int32  `json:"restarts"`
	// LastEnd describes the end of the previous run, such as "exit code 3 (Error)". It is empty
	// without one.
	LastEnd string `json:"lastEnd,omitempty"`
	// Image is the image of the pod's spec.
	Image string `json:"image,omitempty"`
	// Started is the start of the current run, or nil.
	Started *time.Time `json:"started,omitempty"`
	// LastExit is the newest exit: of the current run if it has ended, else of the run before.
	LastExit *ExitReport `json:"lastExit,omitempty"`
}

// ExitReport is the end of one run of a container.
type ExitReport struct {
	Code int32 `json:"code"`
	// Reason is the reason of the runtime, such as "OOMKilled". Message is the termination message.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// At is nil if the time is unknown.
	At *time.Time `json:"at,omitempty"`
	// Cause is the cause, such as "killed: liveness probe failed". It is empty if it is unknown,
	// such as for an exit before the start of this kubelet.
	Cause string `json:"cause,omitempty"`
}

// LogReport is the end of the log of one container.
type LogReport struct {
	Container string `json:"container"`
	// Lines are the last lines, the newest last. Previous is true if they come from the run before,
	// because the current run has not written a line.
	Lines    []string `json:"lines,omitempty"`
	Previous bool     `json:"previous,omitempty"`
	// Cut is true if lines are missing because of the limit in bytes.
	Cut bool `json:"cut,omitempty"`
	// Missing is true without a log file, such as before the start of the container.
	Missing bool `json:"missing,omitempty"`
	// Error is the failure of the read.
	Error string `json:"error,omitempty"`
}

// EventReport is a Kubernetes event of a pod. Equal events are counted.
type EventReport struct {
	// Type is "Normal" or "Warning".
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Container is empty for events of the pod.
	Container string `json:"container,omitempty"`
	Count     int    `json:"count"`
	// At is the time of the newest one.
	At time.Time `json:"at"`
}

// ObjectProblem is a file of the objects' folder that is not used in its current version.
type ObjectProblem struct {
	Path    string `json:"path"`
	Message string `json:"message"`
	// KeptPrevious is true if the previous valid version is used.
	KeptPrevious bool `json:"keptPrevious"`
}

// ManifestProblem is a manifest that is not used in its current version.
type ManifestProblem struct {
	Path    string    `json:"path"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
	// KeptPrevious is true if the previous valid version keeps running.
	KeptPrevious bool `json:"keptPrevious"`
}
