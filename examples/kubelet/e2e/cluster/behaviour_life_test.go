package cluster_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// Exit codes, restart policies, termination messages, deadlines, commands.
var startAndEnd = []behaviour{
	{name: "exit code 0", spec: `{containers: [{command: ["true"]}]}`, phase: v1.PodSucceeded,
		fields: map[string]string{".status.containerStatuses[0].state.terminated.exitCode": "0", ".status.containerStatuses[0].state.terminated.reason": "Completed"}},
	{name: "exit code 3", spec: `{containers: [{command: [sh, -c, exit 3]}]}`, phase: v1.PodFailed,
		fields: map[string]string{".status.containerStatuses[0].state.terminated.exitCode": "3", ".status.containerStatuses[0].state.terminated.reason": "Error", ".status.containerStatuses[0].restartCount": "0"}},
	{name: "one of two fails", spec: `{containers: [{name: a, command: ["true"]}, {name: b, command: ["false"]}]}`, phase: v1.PodFailed},
	{name: "on failure until it succeeds", phase: v1.PodSucceeded,
		spec:   `{restartPolicy: OnFailure, volumes: [{name: v, emptyDir: {}}], containers: [{command: [sh, -c, "test -e /v/x || { touch /v/x; exit 1; }"], volumeMounts: [{name: v, mountPath: /v}]}]}`,
		fields: map[string]string{".status.containerStatuses[0].restartCount": "1", ".status.containerStatuses[0].lastState.terminated.exitCode": "1"}},
	{name: "always, also after success", spec: `{restartPolicy: Always, containers: [{command: [sh, -c, sleep 1]}]}`,
		fields: map[string]string{".status.containerStatuses[0].restartCount": "[1-9]", ".status.containerStatuses[0].lastState.terminated.reason": "Completed", ".status.phase": "Running"}},
	{name: "crash loop", spec: `{restartPolicy: Always, containers: [{command: ["false"]}]}`,
		fields: map[string]string{".status.containerStatuses[0].state.waiting.reason": "CrashLoopBackOff", ".status.containerStatuses[0].state.waiting.message": "back-off .* restarting failed container=c pod=.*"}},
	{name: "rule restarts one exit code", phase: v1.PodSucceeded,
		spec: `{volumes: [{name: v, emptyDir: {}}], containers: [{restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}],
			command: [sh, -c, "test -e /v/x || { touch /v/x; exit 42; }"], volumeMounts: [{name: v, mountPath: /v}]}]}`,
		fields: map[string]string{".status.containerStatuses[0].restartCount": "1"}},
	{name: "active deadline", spec: `{activeDeadlineSeconds: 3, restartPolicy: Always, containers: [{command: [sleep, "1000"]}]}`, phase: v1.PodFailed,
		fields: map[string]string{".status.reason": "DeadlineExceeded", ".status.message": "Pod was active on the node longer than the specified deadline"}},
	{name: "message from the file", spec: `{containers: [{command: [sh, -c, "echo -n done > /dev/termination-log"]}]}`, phase: v1.PodSucceeded,
		fields: map[string]string{".status.containerStatuses[0].state.terminated.message": "done"}},
	{name: "message from another file, of another user", phase: v1.PodSucceeded,
		spec:   `{securityContext: {runAsUser: 1000}, containers: [{terminationMessagePath: /dev/elsewhere, command: [sh, -c, "echo -n done > /dev/elsewhere"]}]}`,
		fields: map[string]string{".status.containerStatuses[0].state.terminated.message": "done"}},
	{name: "message from the log after a failure", phase: v1.PodFailed,
		spec:   `{containers: [{terminationMessagePolicy: FallbackToLogsOnError, command: [sh, -c, "echo it broke; exit 1"]}]}`,
		fields: map[string]string{".status.containerStatuses[0].state.terminated.message": "it broke\n"}},
	{name: "no message from the log after success", phase: v1.PodSucceeded,
		spec:   `{containers: [{terminationMessagePolicy: FallbackToLogsOnError, command: [sh, -c, "echo fine"]}]}`,
		fields: map[string]string{".status.containerStatuses[0].state.terminated.message": ""}},
	{name: "message of the file before that of the log", phase: v1.PodFailed,
		spec:   `{containers: [{terminationMessagePolicy: FallbackToLogsOnError, command: [sh, -c, "echo log; echo -n file > /dev/termination-log; exit 1"]}]}`,
		fields: map[string]string{".status.containerStatuses[0].state.terminated.message": "file"}},
	{name: "entrypoint and arguments of the image", spec: `{containers: [{image: TESTPROG}]}`, phase: v1.PodRunning},
	{name: "arguments for the entrypoint", spec: `{containers: [{image: TESTPROG, args: [version]}]}`, phase: v1.PodSucceeded, logs: []string{"^v1$"}},
	{name: "command instead of the entrypoint", spec: `{containers: [{image: TESTPROG, command: [/testprog, exit, "7"]}]}`, phase: v1.PodFailed,
		fields: map[string]string{".status.containerStatuses[0].state.terminated.exitCode": "7"}},
	{name: "working directory", spec: `{containers: [{workingDir: /etc, command: [pwd]}]}`, phase: v1.PodSucceeded, logs: []string{"^/etc$"}},
	{name: "command that is not there", spec: `{containers: [{command: [/nothing]}]}`, phase: v1.PodFailed,
		fields: map[string]string{".status.containerStatuses[0].state.terminated.reason": "StartError|ContainerCannotRun", ".status.containerStatuses[0].state.terminated.exitCode": "12[78]"}},
	{name: "image that is not there", spec: `{containers: [{image: "localhost:1/none:v1", command: ["true"]}]}`,
		fields: map[string]string{".status.phase": "Pending", ".status.containerStatuses[0].state.waiting.reason": "ErrImagePull|ImagePullBackOff"}},
	{name: "image that must be there", spec: `{containers: [{image: "localhost:1/none:v1", imagePullPolicy: Never, command: ["true"]}]}`,
		fields: map[string]string{".status.phase": "Pending", ".status.containerStatuses[0].state.waiting.reason": "ErrImageNeverPull"}},
	{name: "image name that is none", spec: `{containers: [{image: "UPPER:://", command: ["true"]}]}`,
		fields: map[string]string{".status.phase": "Pending", ".status.containerStatuses[0].state.waiting.reason": "InvalidImageName"}},
	{name: "more memory than its limit", phase: v1.PodFailed,
		spec:   `{containers: [{command: [sh, -c, "a=x; while :; do a=$a$a; done"], resources: {limits: {memory: 24Mi}}}]}`,
		fields: map[string]string{".status.containerStatuses[0].state.terminated.reason": "OOMKilled|Error", ".status.containerStatuses[0].state.terminated.exitCode": "137|2"}},
	{name: "SIGTERM, then the grace period", spec: `{terminationGracePeriodSeconds: 2, containers: [{image: TESTPROG, args: [ignore]}]}`, phase: v1.PodRunning,
		then: func(t *testing.T, n *node, pod string) {
			n.do(t, "delete", "pod", pod, "--wait=false")
			n.gone(t, "pod", pod)
		}},
	{name: "SIGTERM is seen", phase: v1.PodRunning,
		spec: `{terminationGracePeriodSeconds: 100, volumes: [{name: v, hostPath: {path: HOSTDIR/term, type: DirectoryOrCreate}}], containers: [{image: TESTPROG, args: [note, /v/came], volumeMounts: [{name: v, mountPath: /v}]}]}`,
		then: func(t *testing.T, n *node, pod string) {
			n.do(t, "delete", "pod", pod, "--wait=false")
			n.gone(t, "pod", pod)
			came, err := os.ReadFile(n.dir + "/term/came")
			require.NoError(t, err)
			require.NotEmpty(t, came)
		}},
}

// Init containers, and those that stay (KEP-753).
var inits = []behaviour{
	{name: "one after the other, before the others", phase: v1.PodSucceeded, logs: []string{"^one two $"},
		spec: `{volumes: [{name: v, emptyDir: {}}],
			initContainers: [{name: i1, command: [sh, -c, "sleep 1; echo -n 'one ' >> /v/x"], volumeMounts: [{name: v, mountPath: /v}]}, {name: i2, command: [sh, -c, "echo -n 'two ' >> /v/x"], volumeMounts: [{name: v, mountPath: /v}]}],
			containers: [{command: [cat, /v/x], volumeMounts: [{name: v, mountPath: /v}]}]}`,
		fields: map[string]string{`.status.initContainerStatuses[*].state.terminated.reason`: "Completed Completed", `.status.conditions[?(@.type=="Initialized")].status`: "True"}},
	{name: "failure is the pod's", spec: `{initContainers: [{name: i1, command: ["false"]}, {name: i2, command: ["true"]}], containers: [{command: ["true"]}]}`, phase: v1.PodFailed,
		fields: map[string]string{".status.initContainerStatuses[0].state.terminated.exitCode": "1", ".status.initContainerStatuses[1].state.waiting.reason": "PodInitializing", ".status.containerStatuses[0].state.waiting.reason": "PodInitializing",
			`.status.conditions[?(@.type=="Initialized")].status`: "False"}},
	{name: "tried again", phase: v1.PodRunning,
		spec: `{restartPolicy: Always, volumes: [{name: v, emptyDir: {}}], initContainers: [{name: i, command: [sh, -c, "test -e /v/x || { touch /v/x; exit 1; }"], volumeMounts: [{name: v, mountPath: /v}]}],
			containers: [{image: TESTPROG}]}`,
		fields: map[string]string{".status.initContainerStatuses[0].restartCount": "1"}},
	{name: "nothing starts while one fails", spec: `{restartPolicy: Always, initContainers: [{name: i, command: ["false"]}], containers: [{command: ["true"]}]}`,
		fields: map[string]string{".status.phase": "Pending", ".status.initContainerStatuses[0].restartCount": "[1-9]", ".status.containerStatuses[0].started": "false", ".status.containerStatuses[0].state.waiting.reason": "PodInitializing"}},
	{name: "sidecar beside the others", phase: v1.PodRunning,
		spec:   `{restartPolicy: Always, initContainers: [{name: s, image: TESTPROG, restartPolicy: Always}, {name: i, command: ["true"]}], containers: [{image: TESTPROG}]}`,
		fields: map[string]string{".status.initContainerStatuses[0].started": "true", ".status.initContainerStatuses[0].ready": "true", ".status.initContainerStatuses[1].state.terminated.reason": "Completed"}},
	{name: "sidecar ends with the others", phase: v1.PodSucceeded,
		spec:   `{initContainers: [{name: s, image: TESTPROG, restartPolicy: Always}], containers: [{command: [sleep, "1"]}]}`,
		fields: map[string]string{".status.initContainerStatuses[0].state.terminated.exitCode": "0"}},
	{name: "sidecar is restarted", phase: v1.PodRunning,
		spec:   `{restartPolicy: Always, initContainers: [{name: s, command: [sh, -c, sleep 1], restartPolicy: Always}], containers: [{image: TESTPROG}]}`,
		fields: map[string]string{".status.initContainerStatuses[0].restartCount": "[1-9]"}},
	{name: "startup probe of a sidecar holds the next one back", phase: v1.PodSucceeded, logs: []string{"^there$"},
		spec: `{volumes: [{name: v, emptyDir: {}}], initContainers: [{name: s, restartPolicy: Always, command: [sh, -c, "sleep 2; touch /v/up; sleep 1000"], volumeMounts: [{name: v, mountPath: /v}],
			startupProbe: {exec: {command: [test, -e, /v/up]}, periodSeconds: 1, failureThreshold: 60}}],
			containers: [{command: [sh, -c, "test -e /v/up && echo there"], volumeMounts: [{name: v, mountPath: /v}]}]}`},
}
