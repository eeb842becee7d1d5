package cluster_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// Probes of all kinds.
var probings = []behaviour{
	{name: "liveness by a command", spec: `{restartPolicy: Always, containers: [{command: [sh, -c, "touch /ok; sleep 3; rm /ok; sleep 1000"], livenessProbe: {exec: {command: [cat, /ok]}, initialDelaySeconds: 1, periodSeconds: 1, failureThreshold: 1}}]}`,
		fields: map[string]string{".status.containerStatuses[0].restartCount": "[1-9]"},
		then: func(t *testing.T, n *node, pod string) {
			n.waitPodEvent(t, pod, "Unhealthy", "Liveness probe failed: ")
			n.waitPodEvent(t, pod, "Killing", "Container c failed liveness probe, will be restarted")
		}},
	{name: "liveness by HTTP", spec: `{restartPolicy: Always, containers: [{image: TESTPROG, args: [http, ":8080"], livenessProbe: {httpGet: {path: /nothing, port: 8080}, periodSeconds: 1, failureThreshold: 2}}]}`,
		fields: map[string]string{".status.containerStatuses[0].restartCount": "[1-9]"},
		then: func(t *testing.T, n *node, pod string) {
			n.waitPodEvent(t, pod, "Unhealthy", "Liveness probe failed: .*404")
		}},
	{name: "alive by HTTP, TCP, gRPC", phase: v1.PodRunning,
		spec: `{restartPolicy: Always, containers: [{name: a, image: TESTPROG, args: [http, ":8080"], startupProbe: {tcpSocket: {port: 8080}, periodSeconds: 1, failureThreshold: 60}, ports: [{name: web, containerPort: 8080}], livenessProbe: {httpGet: {path: /healthz, port: web}, periodSeconds: 1, timeoutSeconds: 10}},
			{name: b, image: TESTPROG, args: [http, ":8081"], startupProbe: {tcpSocket: {port: 8081}, periodSeconds: 1, failureThreshold: 60}, livenessProbe: {tcpSocket: {port: 8081}, periodSeconds: 1, timeoutSeconds: 10}}, {name: c, image: TESTPROG, args: [http, ":8082"], startupProbe: {tcpSocket: {port: 8082}, periodSeconds: 1, failureThreshold: 60}, livenessProbe: {grpc: {port: 8082}, periodSeconds: 1, timeoutSeconds: 10}},
			{name: d, image: TESTPROG, args: [https, ":8083"], startupProbe: {tcpSocket: {port: 8083}, periodSeconds: 1, failureThreshold: 60}, livenessProbe: {httpGet: {path: /healthz, port: 8083, scheme: HTTPS}, periodSeconds: 1, timeoutSeconds: 10}}]}`,
		then: func(t *testing.T, n *node, pod string) {
			n.requireFieldStays(t, pod, 3*time.Second, ".status.containerStatuses[*].restartCount", "0 0 0 0")
		}},
	{name: "dead by TCP", spec: `{restartPolicy: Always, containers: [{image: TESTPROG, livenessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1, failureThreshold: 1, initialDelaySeconds: 1}}]}`,
		fields: map[string]string{".status.containerStatuses[0].restartCount": "[1-9]"}},
	{name: "dead by gRPC", spec: `{restartPolicy: Always, containers: [{image: TESTPROG, args: [http, ":8080"], livenessProbe: {grpc: {port: 9, service: none}, periodSeconds: 1, failureThreshold: 1, initialDelaySeconds: 1}}]}`,
		fields: map[string]string{".status.containerStatuses[0].restartCount": "[1-9]"}},
	{name: "not ready, and not restarted", spec: `{restartPolicy: Always, containers: [{image: TESTPROG, readinessProbe: {exec: {command: [/testprog, exists, /none]}, periodSeconds: 1}}]}`,
		fields: map[string]string{".status.phase": "Running", `.status.conditions[?(@.type=="ContainersReady")].reason`: "ContainersNotReady", ".status.containerStatuses[0].ready": "false", ".status.containerStatuses[0].started": "true"},
		then: func(t *testing.T, n *node, pod string) {
			n.waitPodEvent(t, pod, "Unhealthy", "Readiness probe failed: ")
			n.requireFieldStays(t, pod, 2*time.Second, ".status.containerStatuses[0].restartCount", "0")
		}},
	{name: "ready after a delay, then unready", spec: `{restartPolicy: Always, volumes: [{name: v, emptyDir: {}}], containers: [{command: [sh, -c, "sleep 2; touch /ok; sleep 1000"], readinessProbe: {exec: {command: [cat, /ok]}, periodSeconds: 1, failureThreshold: 1}}]}`,
		phase: v1.PodRunning, then: func(t *testing.T, n *node, pod string) {
			n.exec(t, pod+"/c", "rm", "/ok")
			n.waitField(t, "pod", pod, `{.status.conditions[?(@.type=="Ready")].status}`, "False")
		}},
	{name: "startup before the other probes", phase: v1.PodRunning,
		spec: `{restartPolicy: Always, containers: [{command: [sh, -c, "sleep 4; touch /ok; sleep 1000"], startupProbe: {exec: {command: [cat, /ok]}, periodSeconds: 1, failureThreshold: 60},
			livenessProbe: {exec: {command: [cat, /ok]}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 1}}]}`,
		fields: map[string]string{".status.containerStatuses[0].restartCount": "0", ".status.containerStatuses[0].started": "true"}},
	{name: "startup fails", spec: `{restartPolicy: Always, containers: [{image: TESTPROG, startupProbe: {exec: {command: [/testprog, exists, /none]}, periodSeconds: 1, failureThreshold: 2}}]}`,
		fields: map[string]string{".status.containerStatuses[0].restartCount": "[1-9]", ".status.containerStatuses[0].started": "false"},
		then: func(t *testing.T, n *node, pod string) {
			n.waitPodEvent(t, pod, "Killing", "Container c failed startup probe, will be restarted")
		}},
	{name: "probe exceeds its timeout", spec: `{restartPolicy: Always, containers: [{command: [sh, -c, sleep 1000], livenessProbe: {exec: {command: [sleep, "10"]}, timeoutSeconds: 1, periodSeconds: 1, failureThreshold: 1}}]}`,
		fields: map[string]string{".status.containerStatuses[0].restartCount": "[1-9]"}},
	{name: "failed probe with its own grace period", spec: `{terminationGracePeriodSeconds: 500, restartPolicy: Always, containers: [{image: TESTPROG, args: [ignore], livenessProbe: {exec: {command: [/testprog, exists, /none]}, terminationGracePeriodSeconds: 1, periodSeconds: 1, failureThreshold: 1}}]}`,
		fields: map[string]string{".status.containerStatuses[0].restartCount": "[1-9]"},
		then: func(t *testing.T, n *node, pod string) {
			n.do(t, "delete", "pod", pod, "--grace-period=1", "--wait=false")
		}},
}

// Lifecycle hooks.
var hooks = []behaviour{
	{name: "after the start", phase: v1.PodSucceeded, logs: []string{`^post$`},
		spec: `{containers: [{command: [sh, -c, "until test -e /x; do sleep 0.1; done; cat /x"], lifecycle: {postStart: {exec: {command: [sh, -c, echo post > /x]}}}}]}`},
	{name: "after the start, by HTTP and by sleep", phase: v1.PodRunning,
		spec: `{containers: [{name: a, image: TESTPROG, args: [http, ":8080"]}, {name: b, image: TESTPROG, lifecycle: {postStart: {sleep: {seconds: 1}}}}]}`},
	{name: "failure after the start", spec: `{restartPolicy: Always, containers: [{image: TESTPROG, lifecycle: {postStart: {exec: {command: [/testprog, exit, "3"]}}}}]}`,
		fields: map[string]string{".status.containerStatuses[0].restartCount": "[1-9]"},
		then: func(t *testing.T, n *node, pod string) {
			n.waitPodEvent(t, pod, "FailedPostStartHook", "PostStartHook failed")
		}},
	{name: "before the end", phase: v1.PodRunning,
		spec: `{terminationGracePeriodSeconds: 30, volumes: [{name: v, hostPath: {path: HOSTDIR/hook, type: DirectoryOrCreate}}], containers: [{image: BUSYBOX, command: [sh, -c, "trap 'echo term >> /v/x; exit 0' TERM; while :; do sleep 0.1; done"], volumeMounts: [{name: v, mountPath: /v}],
			lifecycle: {preStop: {exec: {command: [sh, -c, "echo before >> /v/x; sleep 1; echo after >> /v/x"]}}}}]}`,
		then: func(t *testing.T, n *node, pod string) {
			n.do(t, "delete", "pod", pod, "--wait=false")
			n.waitDeleted(t, "pod", pod)
			text, err := os.ReadFile(n.dir + "/hook/x")
			require.NoError(t, err)
			require.Equal(t, "before\nafter\nterm\n", string(text))
		}},
	{name: "before the end, beyond the grace period", phase: v1.PodRunning,
		spec: `{terminationGracePeriodSeconds: 2, containers: [{image: TESTPROG, lifecycle: {preStop: {exec: {command: [/testprog, ignore]}}}}]}`,
		then: func(t *testing.T, n *node, pod string) {
			n.do(t, "delete", "pod", pod, "--wait=false")
			n.waitDeleted(t, "pod", pod)
		}},
}

// Fields of the status.
var statuses = []behaviour{
	{name: "conditions of a running pod", phase: v1.PodRunning, meta: `{generation: 1}`, spec: `{containers: [{image: TESTPROG}]}`,
		fields: map[string]string{
			`.status.conditions[?(@.type=="PodScheduled")].status`: "True", `.status.conditions[?(@.type=="Initialized")].status`: "True", `.status.conditions[?(@.type=="ContainersReady")].status`: "True",
			`.status.conditions[?(@.type=="PodReadyToStartContainers")].status`: "True", ".status.startTime": `\d{4}-.*Z`, ".status.observedGeneration": "1",
		}},
	{name: "conditions of a finished pod", phase: v1.PodSucceeded, spec: `{containers: [{command: ["true"]}]}`,
		fields: map[string]string{
			`.status.conditions[?(@.type=="Initialized")].reason`: "PodCompleted", `.status.conditions[?(@.type=="Ready")].reason`: "PodCompleted", `.status.conditions[?(@.type=="Ready")].status`: "False",
			`.status.conditions[?(@.type=="PodReadyToStartContainers")].status`: "False",
		}},
	{name: "container", phase: v1.PodRunning, spec: `{containers: [{image: TESTPROG, resources: {requests: {cpu: 10m, memory: 8Mi}, limits: {cpu: 100m, memory: 64Mi}}}]}`,
		fields: map[string]string{
			".status.containerStatuses[0].containerID": `containerd://[0-9a-f]{64}`, ".status.containerStatuses[0].image": `.*testprog:v1`, ".status.containerStatuses[0].imageID": `.*sha256:[0-9a-f]{64}`,
			".status.containerStatuses[0].state.running.startedAt": `\d{4}-.*Z`, ".status.containerStatuses[0].allocatedResources.cpu": "10m", ".status.containerStatuses[0].resources.limits.memory": "64Mi", ".status.containerStatuses[0].started": "true",
			".status.allocatedResources.cpu": "10m", ".status.resources.requests.memory": "8Mi", ".status.resources.limits.cpu": "100m", // of the pod (KEP-5419)
		}},
	{name: "best effort", phase: v1.PodRunning, spec: `{containers: [{image: TESTPROG}]}`, fields: map[string]string{".status.qosClass": "BestEffort"}},
	{name: "burstable", phase: v1.PodRunning, spec: `{containers: [{image: TESTPROG, resources: {requests: {cpu: 10m}}}]}`, fields: map[string]string{".status.qosClass": "Burstable"}},
	{name: "guaranteed", phase: v1.PodRunning, spec: `{containers: [{image: TESTPROG, resources: {limits: {cpu: 100m, memory: 64Mi}}}]}`, fields: map[string]string{".status.qosClass": "Guaranteed"}},
	{name: "volumes of the status", phase: v1.PodRunning, spec: `{volumes: [{name: v, emptyDir: {}}], containers: [{image: TESTPROG, volumeMounts: [{name: v, mountPath: /v, readOnly: true}]}]}`,
		fields: map[string]string{".status.containerStatuses[0].volumeMounts[0].name": "v", ".status.containerStatuses[0].volumeMounts[0].readOnly": "true"}},
	{name: "user of a container", phase: v1.PodRunning, spec: `{securityContext: {runAsUser: 1000, runAsGroup: 1001, supplementalGroups: [5]}, containers: [{image: TESTPROG}]}`},
	{name: "events of a start", phase: v1.PodRunning, spec: `{containers: [{image: TESTPROG}]}`,
		then: func(t *testing.T, n *node, pod string) {
			n.waitPodEvent(t, pod, "Pulled", `(?i)image ".*testprog:v1" (is )?already present on (the )?machine`)
			n.waitPodEvent(t, pod, "Created", "(?i)^(Created container:? c|Container created)$")
			n.waitPodEvent(t, pod, "Started", "(?i)^(Started container:? c|Container started)$")
		}},
}

// Changes of running pods.
var changes = []behaviour{
	{name: "shorter deadline", phase: v1.PodRunning, spec: `{activeDeadlineSeconds: 1000, containers: [{image: TESTPROG}]}`,
		then: func(t *testing.T, n *node, pod string) {
			n.do(t, "patch", "pod", pod, "-p", `{"spec":{"activeDeadlineSeconds":1}}`)
			n.waitField(t, "pod", pod, "{.status.reason}", "DeadlineExceeded")
		}},
}
