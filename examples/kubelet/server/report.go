package server

import "time"

// Report answers, for every pod, why it is still here or not yet running. It is
// the JSON of /statusz/pods.
type Report struct {
	Node   string    `json:"node"`
	Time   time.Time `json:"time"`
	Checks []Check   `json:"checks"`
	// Pods are sorted by namespace and name.
	Pods []PodReport `json:"pods"`
	// Manifests are the files that are not used as they stand.
	Manifests []ManifestProblem `json:"manifests,omitempty"`
	// Objects are the files of --objects-dir that are not used as they stand.
	Objects []ObjectProblem `json:"objects,omitempty"`
	// Probers are the handlers of probes, and whether one holds up its probes.
	Probers []ProberReport `json:"probers,omitempty"`
}

// ProberReport is how busy one handler of probes is.
type ProberReport struct {
	// Handler is one of "exec", "httpGet", "tcpSocket" and "grpc".
	Handler string `json:"handler"`
	// Budget is how many of its probes run at a time at most, Running how many do. Of
	// these, Slow needed half of their timeout or more the last time, and Stuck have not
	// ended although they should have.
	Budget  int `json:"budget"`
	Running int `json:"running"`
	Slow    int `json:"slow"`
	Stuck   int `json:"stuck"`
	// Queued are those whose time has come while the budget is used up; the first of
	// them for Late seconds.
	Queued int     `json:"queued"`
	Late   float64 `json:"lateSeconds"`
}

// Check is one part of the agent's health.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Message says what is wrong, and since when.
	Message string `json:"message,omitempty"`
}

// PodReport is one pod's answer.
type PodReport struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Manifest is the file or the URL that it comes from, empty if none has it any more.
	Manifest string `json:"manifest,omitempty"`
	// Phase is the pod's phase, empty for a pod that only the runtime knows.
	Phase string `json:"phase,omitempty"`
	// Worker is the state of the pod's worker, such as Syncing or Terminating.
	Worker string `json:"worker"`
	// Step is what is being done for it at this moment.
	Step string `json:"step,omitempty"`
	// Since is when the current state or step began.
	Since time.Time `json:"since"`
	// Why says why not all of its containers run, such as "init container a is
	// running", and which images it waits for; one line for each, empty when there
	// is nothing to explain.
	Why string `json:"why,omitempty"`
	// Parts are the resources on the node and the sinks of its status that are not ready, one
	// line for each.
	Parts []string `json:"parts,omitempty"`
	// LastError is the newest error, until a call succeeds.
	LastError string `json:"lastError,omitempty"`
	// NextRetry is when the worker looks at the pod again by itself.
	NextRetry *time.Time `json:"nextRetry,omitempty"`
	// WaitsFor says what has to happen before anything else can.
	WaitsFor string `json:"waitsFor,omitempty"`
	// NotReady says why it cannot serve, such as "ContainersNotReady: ...", empty for
	// a pod that can, and for one that has ended.
	NotReady string `json:"notReady,omitempty"`
	// Containers are the init containers, the containers and the ephemeral ones.
	Containers []ContainerReport `json:"containers,omitempty"`
	// Volumes are those that its containers use, and others of which something was found.
	Volumes []VolumeReport `json:"volumes,omitempty"`
	// Probes are sorted by container and type.
	Probes []ProbeReport `json:"probes,omitempty"`
}

// VolumeReport is how a volume of a pod stands.
type VolumeReport struct {
	Name string `json:"name"`
	// Plugin is such as "kubernetes.io/configmap", State "Mounted".
	Plugin string `json:"plugin,omitempty"`
	State  string `json:"state"`
	// Ready tells that containers may use it.
	Ready bool `json:"ready"`
	// WaitsFor says what happens next, or has to; empty when nothing is to be done.
	WaitsFor string `json:"waitsFor,omitempty"`
	// Operation is what runs for it, since RunningSince. Stuck tells that it should have
	// ended.
	Operation    string     `json:"operation,omitempty"`
	RunningSince *time.Time `json:"runningSince,omitempty"`
	Stuck        bool       `json:"stuck,omitempty"`
	// LastError is why it failed last, until it succeeds, and NextTry when it is tried again.
	LastError string     `json:"lastError,omitempty"`
	NextTry   *time.Time `json:"nextTry,omitempty"`
}

// ProbeReport is what one probe of a pod does, and what it last found.
type ProbeReport struct {
	Container string `json:"container"`
	// Type is "Liveness", "Readiness" or "Startup", Handler one of "exec", "httpGet",
	// "tcpSocket" and "grpc".
	Type    string `json:"type"`
	Handler string `json:"handler"`
	// State is what it does now, such as "Scheduled" or "Waiting", and Why says what it
	// waits for, or why it has ended.
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
	// Next is when it looks at its container again.
	Next *time.Time `json:"next,omitempty"`
	// Period and Timeout are in seconds.
	Period  float64 `json:"periodSeconds"`
	Timeout float64 `json:"timeoutSeconds"`
	// Result is what counts: "Success", "Failure", or "Unknown". It changes when
	// Consecutive has come to Threshold.
	Result      string `json:"result"`
	Consecutive int32  `json:"consecutive"`
	Threshold   int32  `json:"threshold"`
	// Last is what was found last, at LastAt, within LastTook seconds; Output the
	// begin of what was said. "Unknown" says that the container could not be asked.
	Last     string     `json:"last,omitempty"`
	LastAt   *time.Time `json:"lastAt,omitempty"`
	LastTook float64    `json:"lastTookSeconds,omitempty"`
	Output   string     `json:"output,omitempty"`
}

// ContainerReport is the short form of a container's status.
type ContainerReport struct {
	Name string `json:"name"`
	// Kind is "init", "sidecar" or "ephemeral", empty for the others.
	Kind     string `json:"kind,omitempty"`
	State    string `json:"state"`
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
	Restarts int32  `json:"restarts"`
	// LastEnd is how the run before the current state ended, such as
	// "exit code 3 (Error)"; empty without one.
	LastEnd string `json:"lastEnd,omitempty"`
}

// ObjectProblem is a file of the objects' folder that is not used as it stands.
type ObjectProblem struct {
	Path    string `json:"path"`
	Message string `json:"message"`
	// KeptPrevious tells that the previous good version is used.
	KeptPrevious bool `json:"keptPrevious"`
}

// ManifestProblem is a file of the manifest folder that is not used, or of
// which an older version is.
type ManifestProblem struct {
	Path    string    `json:"path"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
	// KeptPrevious tells that the previous good version keeps running.
	KeptPrevious bool `json:"keptPrevious"`
}
