package cluster_test

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// The environment of containers.
var environments = []behaviour{
	{name: "values, and values of values", phase: v1.PodSucceeded, logs: []string{`^B=a-b$`, `^C=\$\(A\)$`, `^D=\$\(NONE\)$`, `^E=$`},
		spec: `{containers: [{command: [env], env: [{name: A, value: a}, {name: B, value: $(A)-b}, {name: C, value: $$(A)}, {name: D, value: $(NONE)}, {name: E}]}]}`},
	{name: "in command and arguments", phase: v1.PodSucceeded, logs: []string{`^x z \$\(A\) \$\(NONE\)$`},
		spec: `{containers: [{command: [sh, -c, "echo $0 $1 '$$(A)' '$(NONE)'", $(A)], args: [$(B)], env: [{name: A, value: x}, {name: B, value: z}]}]}`},
	{name: "of a config map", before: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: env, namespace: NS}\ndata: {k: v, other.key: w}", phase: v1.PodSucceeded, logs: []string{`^K=v$`, `^P_k=v$`, `^P_other\.key=w$`},
		spec: `{containers: [{command: [env], env: [{name: K, valueFrom: {configMapKeyRef: {name: env, key: k}}}, {name: NONE, valueFrom: {configMapKeyRef: {name: none, key: k, optional: true}}}], envFrom: [{prefix: P_, configMapRef: {name: env}}, {configMapRef: {name: none, optional: true}}]}]}`},
	{name: "of a secret", before: "apiVersion: v1\nkind: Secret\nmetadata: {name: env, namespace: NS}\nstringData: {k: hidden}", phase: v1.PodSucceeded, logs: []string{`^K=hidden$`, `^k=hidden$`},
		spec: `{containers: [{command: [env], env: [{name: K, valueFrom: {secretKeyRef: {name: env, key: k}}}], envFrom: [{secretRef: {name: env}}]}]}`},
	{name: "missing key", before: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: less, namespace: NS}\ndata: {k: v}",
		spec:   `{containers: [{command: [env], env: [{name: K, valueFrom: {configMapKeyRef: {name: less, key: more}}}]}]}`,
		fields: map[string]string{".status.phase": "Pending", ".status.containerStatuses[0].state.waiting.reason": "CreateContainerConfigError", ".status.containerStatuses[0].state.waiting.message": ".*couldn't find key more in ConfigMap .*/less"}},
	{name: "of the pod", meta: `{labels: {l: lv}, annotations: {a: av}}`, phase: v1.PodSucceeded,
		logs: []string{`^NAME=environment-of-the-pod$`, `^SPACE=n[0-9a-f]{8}$`, `^UID=[0-9a-f-]{36}$`, `^IP=\d+\.\d+\.\d+\.\d+$`, `^HOST=\d+\.\d+\.\d+\.\d+$`, `^MACHINE=n[0-9a-f]{8}$`, `^SA=default$`, `^L=lv$`, `^A=av$`, `^IPS=\d+\.`},
		spec: `{containers: [{command: [env], env: [{name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: SPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}},
			{name: UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}, {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {name: IPS, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}, {name: HOST, valueFrom: {fieldRef: {fieldPath: status.hostIP}}},
			{name: MACHINE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}, {name: SA, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}},
			{name: L, valueFrom: {fieldRef: {fieldPath: "metadata.labels['l']"}}}, {name: A, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['a']"}}}]}]}`},
	{name: "of its resources", phase: v1.PodSucceeded, logs: []string{`^CL=1$`, `^CR=250$`, `^ML=67108864$`, `^MR=32$`},
		spec: `{containers: [{command: [env], resources: {requests: {cpu: 250m, memory: 32Mi}, limits: {cpu: 700m, memory: 64Mi}}, env: [{name: CL, valueFrom: {resourceFieldRef: {resource: limits.cpu}}},
			{name: CR, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: 1m}}}, {name: ML, valueFrom: {resourceFieldRef: {resource: limits.memory}}}, {name: MR, valueFrom: {resourceFieldRef: {resource: requests.memory, divisor: 1Mi}}}]}]}`},
	{name: "of the node without limits", phase: v1.PodSucceeded, logs: []string{`^CL=[1-9]\d*$`, `^ML=\d{9,}$`},
		spec: `{containers: [{command: [env], env: [{name: CL, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}, {name: ML, valueFrom: {resourceFieldRef: {resource: limits.memory}}}]}]}`},
	{name: "of services", before: "apiVersion: v1\nkind: Service\nmetadata: {name: seen, namespace: NS}\nspec: {ports: [{name: web, port: 80}]}", phase: v1.PodSucceeded,
		logs: []string{`^SEEN_SERVICE_HOST=\d`, `^SEEN_SERVICE_PORT=80$`, `^SEEN_SERVICE_PORT_WEB=80$`, `^SEEN_PORT_80_TCP_PROTO=tcp$`, `^KUBERNETES_SERVICE_HOST=\d`},
		spec: `{containers: [{command: [env]}]}`},
	{name: "without links to services", before: "apiVersion: v1\nkind: Service\nmetadata: {name: hidden, namespace: NS}\nspec: {ports: [{port: 80}]}", phase: v1.PodSucceeded, logs: []string{`^none$`, `^KUBERNETES_SERVICE_HOST=\d`},
		spec: `{enableServiceLinks: false, containers: [{command: [sh, -c, "env; env | grep -q HIDDEN || echo none"]}]}`},
	{name: "of a file", phase: v1.PodSucceeded, logs: []string{`^K=from a file$`},
		spec: `{volumes: [{name: v, emptyDir: {}}], initContainers: [{name: i, command: [sh, -c, "echo \"KEY='from a file'\" > /v/env"], volumeMounts: [{name: v, mountPath: /v}]}],
			containers: [{command: [env], env: [{name: K, valueFrom: {fileKeyRef: {volumeName: v, path: env, key: KEY}}}]}]}`},
}

const someData = `
apiVersion: v1
kind: ConfigMap
metadata: {name: data, namespace: NS}
data: {one: "1", two: "2"}
binaryData: {raw: /+8=}
---
apiVersion: v1
kind: Secret
metadata: {name: data, namespace: NS}
stringData: {one: s1, two: s2}`

// Files that the kubelet writes for a pod.
var filesOfPods = []behaviour{
	{name: "config map", before: someData, phase: v1.PodSucceeded, logs: []string{`^1 2$`, `^ff ef$`, `^644$`},
		spec: `{volumes: [{name: v, configMap: {name: data}}], containers: [{command: [sh, -c, "echo $(cat /v/one) $(cat /v/two); hexdump -e '2/1 \"%02x \" \"\\n\"' /v/raw | sed 's/ $//'; stat -Lc %a /v/one"], volumeMounts: [{name: v, mountPath: /v}]}]}`},
	{name: "config map with modes and paths", phase: v1.PodSucceeded, logs: []string{`^1$`, `^400$`, `^440$`, `^only$`},
		spec: `{volumes: [{name: v, configMap: {name: data, defaultMode: 256, items: [{key: one, path: a/b}, {key: two, path: c, mode: 288}]}}],
			containers: [{command: [sh, -c, "cat /v/a/b; echo; stat -Lc %a /v/a/b; stat -Lc %a /v/c; test -e /v/one || echo only"], volumeMounts: [{name: v, mountPath: /v}]}]}`},
	{name: "secret for a group of users", phase: v1.PodSucceeded, logs: []string{`^s1$`, `^440 1001$`},
		spec: `{securityContext: {runAsUser: 1000, fsGroup: 1001}, volumes: [{name: v, secret: {secretName: data, defaultMode: 288}}],
			containers: [{command: [sh, -c, "cat /v/one; echo; stat -Lc '%a %g' /v/one"], volumeMounts: [{name: v, mountPath: /v}]}]}`},
	{name: "optional and missing", phase: v1.PodSucceeded, logs: []string{`^0$`},
		spec: `{volumes: [{name: a, configMap: {name: none, optional: true}}, {name: b, secret: {secretName: none, optional: true}}, {name: c, secret: {secretName: data, optional: true, items: [{key: three, path: x}]}}],
			containers: [{command: [sh, -c, "ls /a /b /c | grep -vc : | tr -d ' ' | sed 's/^[12]$/0/'"], volumeMounts: [{name: a, mountPath: /a}, {name: b, mountPath: /b}, {name: c, mountPath: /c}]}]}`},
	{name: "missing, then created", spec: `{volumes: [{name: v, configMap: {name: later}}], containers: [{command: [cat, /v/k], volumeMounts: [{name: v, mountPath: /v}]}]}`,
		fields: map[string]string{".status.phase": "Pending", ".status.containerStatuses[0].state.waiting.reason": "ContainerCreating"},
		then: func(t *testing.T, n *node, pod string) {
			n.waitPodEvent(t, pod, "FailedMount", `configmap "(.*/)?later" not found`)
			n.do(t, "create", "configmap", "later", "--from-literal=k=came")
			n.waitField(t, "pod", pod, "{.status.phase}", "Succeeded")
		}},
	{name: "change of a config map and a secret", phase: v1.PodRunning,
		before: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: moves, namespace: NS}\ndata: {k: one}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: moves, namespace: NS}\nstringData: {k: one}",
		spec:   `{volumes: [{name: v, projected: {sources: [{configMap: {name: moves, items: [{key: k, path: c}]}}, {secret: {name: moves, items: [{key: k, path: s}]}}]}}], containers: [{image: BUSYBOX, command: [sh, -c, "trap 'exit 0' TERM; while :; do echo $(cat /v/c /v/s); sleep 0.5; done"], volumeMounts: [{name: v, mountPath: /v}]}]}`,
		then: func(t *testing.T, n *node, pod string) {
			n.do(t, "patch", "configmap", "moves", "-p", `{"data":{"k":"two"}}`)
			n.do(t, "patch", "secret", "moves", "-p", `{"stringData":{"k":"three"}}`)
			n.until(t, "the container sees the change", func() error {
				if log, err := n.logOf(pod, "c"); err != nil || !strings.HasSuffix(log, "twothree\n") {
					return errors.Join(err, errors.New(log[max(0, len(log)-40):]))
				}
				return nil
			})
		}},
	{name: "pod's own data, and its change", meta: `{labels: {l: "1"}, annotations: {a: "1"}}`, phase: v1.PodRunning, logs: []string{`^a="1"$`, `^l="1"$`, `^files-pod-s-own-data-and-its-change$`, `^250$`, `^400$`},
		spec: `{volumes: [{name: v, downwardAPI: {defaultMode: 256, items: [{path: l, fieldRef: {fieldPath: metadata.labels}}, {path: a, fieldRef: {fieldPath: metadata.annotations}}, {path: name, fieldRef: {fieldPath: metadata.name}},
			{path: c, resourceFieldRef: {containerName: c, resource: requests.cpu, divisor: 1m}}]}}],
			containers: [{resources: {requests: {cpu: 250m}}, command: [sh, -c, "trap 'exit 0' TERM; stat -Lc %a /v/l; for f in a l name c; do cat /v/$f; echo; done; while :; do cat /v/l; echo; sleep 0.5; done"], volumeMounts: [{name: v, mountPath: /v}]}]}`,
		then: func(t *testing.T, n *node, pod string) {
			n.do(t, "label", "pod", pod, "l=2", "--overwrite")
			n.until(t, "the container sees the change", func() error {
				log, err := n.logOf(pod, "c")
				if err == nil && !strings.Contains(log, `l="2"`) {
					err = errors.New(log)
				}
				return err
			})
		}},
	{name: "all in one", phase: v1.PodSucceeded, logs: []string{`^1 s2 files-all-in-one 3$`, `^600$`},
		spec: `{volumes: [{name: v, projected: {defaultMode: 420, sources: [{configMap: {name: data, items: [{key: one, path: c/x, mode: 384}]}}, {secret: {name: data, items: [{key: two, path: s}]}},
			{downwardAPI: {items: [{path: d, fieldRef: {fieldPath: metadata.name}}]}}, {serviceAccountToken: {path: t, audience: somebody, expirationSeconds: 600}}]}}],
			containers: [{command: [sh, -c, "echo $(cat /v/c/x) $(cat /v/s) $(cat /v/d) $(tr . '\\n' < /v/t | grep -c .); stat -Lc %a /v/c/x"], volumeMounts: [{name: v, mountPath: /v}]}]}`},
	{name: "token of the service account", phase: v1.PodSucceeded, logs: []string{`^ca.crt namespace token$`, `^n[0-9a-f]{8}$`},
		spec: `{containers: [{command: [sh, -c, "cd /var/run/secrets/kubernetes.io/serviceaccount; echo $(ls); cat namespace; echo"]}]}`},
	{name: "no token", phase: v1.PodSucceeded, logs: []string{`^none$`},
		spec: `{automountServiceAccountToken: false, containers: [{command: [sh, -c, "test -e /var/run/secrets || echo none"]}]}`},
}
