package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/testbed/tb"
	"github.com/podwright/podwright/examples/testbed/tb/controlplane"
)

// running is what a container does that ends at once on SIGTERM.
const running = `{command: [sh, -c, 'trap "exit 0" TERM; sleep 86400 & wait'], image: BUSYBOX, name: c`

// A pod's whole life, with what it refers to: it runs, sees a changed config map, shows its
// events, and goes.
func TestLifeOfAPod(t *testing.T) {
	onNodes(t, func(t *testing.T, n *node) {
		n.apply(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: cm}
data: {key: one}
---
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {key: hidden}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{port: 80}], selector: {app: web}}
---
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {app: web}}
spec:
  nodeName: NODE
  containers:
  - `+running+`, env: [{name: KEY, valueFrom: {secretKeyRef: {name: s, key: key}}}], volumeMounts: [{name: v, mountPath: /v}, {name: d, mountPath: /d}]}
  volumes:
  - {name: v, configMap: {name: cm}}
  - {name: d, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
`)
		n.ready(t, "a")
		require.Equal(t, "one", n.exec(t, "a/c", "cat", "/v/key"))
		require.Contains(t, n.exec(t, "a/c", "cat", "/d/labels"), `app="web"`)
		env := n.exec(t, "a/c", "env")
		require.Contains(t, env, "KEY=hidden")
		require.Contains(t, env, "WEB_SERVICE_PORT=80")
		require.Contains(t, env, "KUBERNETES_SERVICE_HOST=")
		token := n.exec(t, "a/c", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/token")
		require.Equal(t, 3, len(strings.Split(token, ".")), "a JWT")

		before := n.ids(t)
		n.do(t, "patch", "configmap", "cm", "-p", `{"data":{"key":"two"}}`)
		n.do(t, "label", "pod", "a", "room=3")
		n.until(t, "the change is seen", func() error {
			if got := n.exec(t, "a/c", "cat", "/v/key") + n.exec(t, "a/c", "cat", "/d/labels"); !strings.Contains(got, "two") || !strings.Contains(got, `room="3"`) {
				return errors.New(got)
			}
			return nil
		})
		require.Equal(t, before, n.ids(t))
		events := n.do(t, "get", "events", "-o", `jsonpath={range .items[*]}{.reason} {end}`)
		for _, reason := range []string{"Pulled", "Created", "Started"} {
			require.Contains(t, events, reason)
		}
		require.Contains(t, n.do(t, "describe", "pod", "a"), "Started container c")
		n.until(t, "what happened to the node is told", func() error {
			_, told, _ := strings.Cut(n.do(t, "describe", "node", n.name), "Events:")
			for _, reason := range []string{"Starting", "NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady"} {
				if !strings.Contains(told, " "+reason+" ") {
					return fmt.Errorf("no %s in %s", reason, told)
				}
			}
			return nil
		})

		n.do(t, "delete", "pod", "a", "--wait=false")
		n.gone(t, "pod", "a")
		n.until(t, "the runtime has nothing", n.empty)
	})
}

// Pods that end by themselves, in order; a Deployment that grows and shrinks; one that is
// deleted by force.
func TestControllers(t *testing.T) {
	onNodes(t, func(t *testing.T, n *node) {
		n.apply(t, `
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  completions: 2
  template:
    spec:
      nodeSelector: {kubernetes.io/hostname: NODE}
      restartPolicy: OnFailure
      initContainers: [{name: i, image: BUSYBOX, command: [sh, -c, 'echo first']}]
      containers: [{name: c, image: BUSYBOX, command: [sh, -c, 'echo done > /dev/termination-log']}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 2
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec:
      nodeSelector: {kubernetes.io/hostname: NODE}
      containers: [`+running+`}]
`)
		n.until(t, "the job is done", func() error {
			if out := n.get(t, "job", "j", "{.status.succeeded}"); out != "2" {
				return fmt.Errorf("succeeded: %q", out)
			}
			return nil
		})
		scale := func(replicas string) {
			n.do(t, "scale", "deployment", "d", "--replicas", replicas)
			n.until(t, "the deployment has "+replicas, func() error {
				if out := n.get(t, "deployment", "d", "{.status.readyReplicas}/{.status.replicas}"); out != replicas+"/"+replicas {
					return errors.New(out)
				}
				return nil
			})
		}
		scale("8")
		scale("3")
		n.until(t, "three are left", func() error {
			if ids := n.ids(t); len(ids) != 3 {
				return fmt.Errorf("%v", ids)
			}
			return nil
		})
		for _, pod := range n.pods(t) {
			if pod.Labels["app"] == "d" && pod.DeletionTimestamp == nil {
				n.do(t, "delete", "pod", pod.Name, "--force", "--grace-period=0")
				break
			}
		}
		scale("3")
		n.do(t, "delete", "deployment,job", "--all")
		n.until(t, "the runtime has nothing", n.empty)
	})
}

// An agent that is killed harms no pod: no container is restarted, no Ready is taken back,
// and what ends afterwards is told.
func TestKilled(t *testing.T) {
	onNodes(t, func(t *testing.T, n *node) {
		n.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: stays}
spec:
  nodeName: NODE
  containers: [`+running+`}]
---
apiVersion: v1
kind: Pod
metadata: {name: ends}
spec:
  nodeName: NODE
  restartPolicy: Never
  containers: [{name: c, image: BUSYBOX, command: [sh, -c, 'while ! test -e /h/end; do sleep 0.1; done; exit 7'], volumeMounts: [{name: h, mountPath: /h}]}]
  volumes: [{name: h, hostPath: {path: `+n.dir+`}}]
`)
		n.ready(t, "stays")
		n.ready(t, "ends")
		since := func() string {
			return n.get(t, "pod", "stays", `{.status.conditions[?(@.type=="Ready")].lastTransitionTime} {.status.containerStatuses[0].containerID}`)
		}
		before := since()
		for range 3 {
			n.kill(t)
			n.start(t)
			time.Sleep(2 * time.Second)
		}
		require.NoError(t, os.WriteFile(filepath.Join(n.dir, "end"), nil, 0o600))
		n.until(t, "its end is told", func() error {
			if out := n.get(t, "pod", "ends", "{.status.phase} {.status.containerStatuses[0].state.terminated.exitCode}"); out != "Failed 7" {
				return errors.New(out)
			}
			return nil
		})
		require.Equal(t, before, since())
	})
}

// An API server that is away harms no pod, also when the agent is killed meanwhile: what
// dies is started again, static pods start, and what has ended is told afterwards.
func TestOutage(t *testing.T) {
	runtimes := tb.Runtimes(t)
	n := newNode(t, controlplane.Of(t), runtimes[len(runtimes)-1])
	n.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: stays}
spec:
  nodeName: NODE
  containers: [`+running+`}, {name: dies, image: BUSYBOX, command: [sh, -c, 'trap "exit 0" TERM; while ! test -e /h/die; do sleep 0.1; done; rm /h/die; exit 1'], volumeMounts: [{name: h, mountPath: /h}]}]
  volumes: [{name: h, hostPath: {path: `+n.dir+`}}]
`)
	n.ready(t, "stays")
	before := n.ids(t)
	n.APIServer.Stop(t)
	require.NoError(t, os.WriteFile(filepath.Join(n.dir, "die"), nil, 0o600))
	other := func() error {
		if now := n.ids(t); now["stays/dies"] == before["stays/dies"] || now["stays/dies"] == "" || now["stays/c"] != before["stays/c"] {
			return fmt.Errorf("%v", now)
		}
		return nil
	}
	n.until(t, "what died runs again", other)
	before["stays/dies"] = n.ids(t)["stays/dies"]
	n.kill(t)
	n.start(t)
	time.Sleep(10 * time.Second)
	require.Equal(t, before, n.ids(t), "pods of a source that cannot be read are left alone")
	n.APIServer.Start(t)
	n.until(t, "the restart is told", func() error {
		if out := n.get(t, "pod", "stays", `{.status.containerStatuses[?(@.name=="dies")].restartCount}`); out != "1" {
			return fmt.Errorf("restarts: %q", out)
		}
		return nil
	})
	n.ready(t, "stays")
	require.Equal(t, before, n.ids(t))
}

// A static pod is seen as its mirror; deleting that harms it not.
func TestMirror(t *testing.T) {
	onNodes(t, func(t *testing.T, n *node) {
		manifest := strings.NewReplacer("BUSYBOX", n.images.Busybox, "NS", n.namespace).Replace(`
apiVersion: v1
kind: Pod
metadata: {name: static, namespace: NS}
spec:
  containers: [` + running + `}]
`)
		require.NoError(t, os.WriteFile(filepath.Join(n.manifests, "static.yaml"), []byte(manifest), 0o600))
		name := "static-" + n.name
		n.ready(t, name)
		before, uid := n.ids(t), n.get(t, "pod", name, "{.metadata.uid}")
		n.do(t, "delete", "pod", name, "--force", "--grace-period=0")
		n.until(t, "there is another mirror", func() error {
			if now := n.get(t, "pod", name, "{.metadata.uid}"); now == "" || now == uid {
				return errors.New(now)
			}
			return nil
		})
		n.ready(t, name)
		require.Equal(t, before, n.ids(t))
		require.NoError(t, os.Remove(filepath.Join(n.manifests, "static.yaml")))
		n.gone(t, "pod", name)
	})
}

// Pods that the API server accepts and this node cannot run say so, and harm no other.
func TestCannotRun(t *testing.T) {
	onNodes(t, func(t *testing.T, n *node) {
		n.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: bystander}
spec:
  nodeName: NODE
  containers: [`+running+`, readinessProbe: {exec: {command: ["true"]}, periodSeconds: 1}}]
---
apiVersion: v1
kind: Pod
metadata: {name: missing}
spec:
  nodeName: NODE
  containers: [`+running+`, envFrom: [{configMapRef: {name: none}}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: cloud}
spec:
  nodeName: NODE
  containers: [`+running+`, volumeMounts: [{name: v, mountPath: /v}]}]
  volumes: [{name: v, awsElasticBlockStore: {volumeID: x}}]
---
apiVersion: v1
kind: Pod
metadata: {name: elsewhere}
spec:
  nodeName: NODE
  nodeSelector: {room: "3"}
  containers: [`+running+`}]
`)
		n.ready(t, "bystander")
		n.until(t, "each says why", func() error {
			var errs []error
			for pod, want := range map[string]string{"missing": "CreateContainerConfigError", "elsewhere": "NodeAffinity"} {
				if got := n.get(t, "pod", pod, "{.status.reason}{.status.containerStatuses[0].state.waiting.reason}"); got != want {
					errs = append(errs, fmt.Errorf("%s: %q", pod, got))
				}
			}
			if got := n.do(t, "describe", "pod", "cloud"); !strings.Contains(got, "FailedMount") {
				errs = append(errs, errors.New(got))
			}
			return errors.Join(errs...)
		})
		require.Equal(t, "0", n.get(t, "pod", "bystander", "{.status.containerStatuses[0].restartCount}"))
		n.apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: none}}")
		n.ready(t, "missing")
		for _, pod := range n.pods(t) {
			require.NotEqual(t, v1.PodUnknown, pod.Status.Phase)
		}
	})
}
