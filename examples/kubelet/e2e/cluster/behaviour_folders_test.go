package cluster_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// emptyDir, hostPath, and subPaths of volumes.
var foldersOfPods = []behaviour{
	{name: "emptyDir writable by all users", phase: v1.PodSucceeded, logs: []string{`^777$`, `^1000$`},
		spec: `{securityContext: {runAsUser: 1000}, volumes: [{name: v, emptyDir: {}}], containers: [{command: [sh, -c, "stat -c %a /v; touch /v/x; stat -c %u /v/x"], volumeMounts: [{name: v, mountPath: /v}]}]}`},
	{name: "emptyDir in memory, with a size", phase: v1.PodSucceeded, logs: []string{`^tmpfs$`, `^full$`},
		spec: `{volumes: [{name: v, emptyDir: {medium: Memory, sizeLimit: 1Mi}}], containers: [{command: [sh, -c, "stat -f -c %T /v; dd if=/dev/zero of=/v/x bs=64k count=32 2>/dev/null || echo full"], volumeMounts: [{name: v, mountPath: /v}]}]}`},
	{name: "emptyDir of a group", phase: v1.PodSucceeded, logs: []string{`^1001 \d?2?777$`, `^1001$`},
		spec: `{securityContext: {runAsUser: 1000, fsGroup: 1001}, volumes: [{name: v, emptyDir: {}}], containers: [{command: [sh, -c, "stat -c '%g %a' /v; touch /v/x; stat -c %g /v/x"], volumeMounts: [{name: v, mountPath: /v}]}]}`},
	{name: "emptyDir for two containers", phase: v1.PodSucceeded, logs: []string{`^from b$`},
		spec: `{volumes: [{name: v, emptyDir: {}}], containers: [{name: a, command: [sh, -c, "until test -s /v/x; do sleep 0.1; done; cat /v/x"], volumeMounts: [{name: v, mountPath: /v, readOnly: true}]}, {name: b, command: [sh, -c, "echo from b > /v/x"], volumeMounts: [{name: v, mountPath: /v}]}]}`},
	{name: "emptyDir survives its container", phase: v1.PodSucceeded, logs: []string{`^again$`},
		spec: `{restartPolicy: OnFailure, volumes: [{name: v, emptyDir: {}}], containers: [{command: [sh, -c, "test -e /v/x && echo again && exit 0; touch /v/x; exit 1"], volumeMounts: [{name: v, mountPath: /v}]}]}`},
	{name: "read-only mount", phase: v1.PodSucceeded, logs: []string{`Read-only file system`},
		spec: `{volumes: [{name: v, emptyDir: {}}], containers: [{command: [sh, -c, "touch /v/x 2>&1 || true"], volumeMounts: [{name: v, mountPath: /v, readOnly: true}]}]}`},
	{name: "hostPath is created", phase: v1.PodSucceeded,
		spec: `{volumes: [{name: v, hostPath: {path: HOSTDIR/made/by/pod, type: DirectoryOrCreate}}, {name: f, hostPath: {path: HOSTDIR/made-file, type: FileOrCreate}}], containers: [{command: [sh, -c, "echo in > /v/x; echo more >> /f"], volumeMounts: [{name: v, mountPath: /v}, {name: f, mountPath: /f}]}]}`,
		then: func(t *testing.T, n *node, pod string) {
			for file, want := range map[string]string{"made/by/pod/x": "in\n", "made-file": "more\n"} {
				text, err := os.ReadFile(filepath.Join(n.dir, file))
				require.NoError(t, err)
				require.Equal(t, want, string(text))
			}
			info, err := os.Stat(filepath.Join(n.dir, "made/by/pod"))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
		}},
	{name: "hostPath of another type", spec: `{volumes: [{name: v, hostPath: {path: /etc/passwd, type: Directory}}], containers: [{command: ["true"], volumeMounts: [{name: v, mountPath: /v}]}]}`,
		fields: map[string]string{".status.phase": "Pending"},
		then: func(t *testing.T, n *node, pod string) {
			n.waitPodEvent(t, pod, "FailedMount", "(?i)hostPath.*/etc/passwd")
		}},
	{name: "missing hostPath", spec: `{volumes: [{name: v, hostPath: {path: /not/there, type: Socket}}], containers: [{command: ["true"], volumeMounts: [{name: v, mountPath: /v}]}]}`,
		fields: map[string]string{".status.phase": "Pending"},
		then: func(t *testing.T, n *node, pod string) {
			n.waitPodEvent(t, pod, "FailedMount", "(?i)hostPath.*/not/there")
		}},
	{name: "subPath of a folder, a file and objects", phase: v1.PodSucceeded, logs: []string{`^own$`, `^1s1folders-subpath-of-a-folder`},
		before: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: sub, namespace: NS}\ndata: {one: \"1\"}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: sub, namespace: NS}\nstringData: {one: s1}",
		spec: `{volumes: [{name: e, emptyDir: {}}, {name: c, configMap: {name: sub}}, {name: s, secret: {secretName: sub}}, {name: d, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}],
			initContainers: [{name: i, command: [sh, -c, "echo own > /e/x; echo other > /all/y"], volumeMounts: [{name: e, mountPath: /e, subPath: a/b}, {name: e, mountPath: /all}]}],
			containers: [{command: [sh, -c, "cat /x /c /s /n; test -e /all/a/b/x"], volumeMounts: [{name: e, mountPath: /x, subPath: a/b/x}, {name: e, mountPath: /all}, {name: c, mountPath: /c, subPath: one}, {name: s, mountPath: /s, subPath: one}, {name: d, mountPath: /n, subPath: name}]}]}`},
	{name: "subPath from the environment", phase: v1.PodSucceeded, logs: []string{`^folders-subpath-from-the-environment$`},
		spec: `{volumes: [{name: v, emptyDir: {}}], containers: [{env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}], command: [sh, -c, "ls /all"], volumeMounts: [{name: v, mountPath: /v, subPathExpr: $(POD)}, {name: v, mountPath: /all}]}]}`},
	{name: "subPath with an undefined variable", spec: `{volumes: [{name: v, emptyDir: {}}], containers: [{command: ["true"], volumeMounts: [{name: v, mountPath: /v, subPathExpr: $(NONE)}]}]}`,
		fields: map[string]string{".status.phase": "Pending", ".status.containerStatuses[0].state.waiting.reason": "CreateContainerConfigError"}},
	{name: "subPath outside its volume", phase: "", spec: `{volumes: [{name: v, emptyDir: {}}], initContainers: [{name: i, command: [ln, -s, /etc, /v/l], volumeMounts: [{name: v, mountPath: /v}]}], containers: [{command: ["true"], volumeMounts: [{name: v, mountPath: /v, subPath: l/passwd}]}]}`,
		fields: map[string]string{".status.phase": "Pending", ".status.containerStatuses[0].state.waiting.reason": "CreateContainerConfigError"}},
	{name: "memory is shared by default", phase: v1.PodSucceeded, logs: []string{`^tmpfs 65536$`},
		spec: `{containers: [{command: [sh, -c, "echo $(stat -f -c %T /dev/shm) $(df -k /dev/shm | tail -1 | awk '{print $2}')"]}]}`},
}
