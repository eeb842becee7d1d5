package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podwright/podwright/cri"
)

// containerd is a runtime of the testbed.
type containerd struct{ key, name, endpoint string }

// kubelet is a program. before is the program before an upgrade.
type kubelet struct{ name, program, before string }

// scene is a node with a kubelet and pods, in a namespace of the same name.
type scene struct {
	*cluster
	rt      containerd
	kubelet kubelet
	node    string
	dir     string
	agent   *agent
	expires time.Time // end of the client certificate, for a short one

	mu     sync.Mutex
	poller *poller // nil before the observation
}

// shortCertificate is the lifetime of the certificate for apiserver-certificate. Kubelets renew it
// when 70 to 90 % of its lifetime and of the minute before have passed.
const (
	shortCertificate = 75 * time.Second
	setUpLimit       = 30 * time.Second
)

// newScene starts a node and its pods, and returns when all pods are ready. With short the client
// certificate ends after shortCertificate, and the kubelet may request new ones.
func newScene(ctx context.Context, c *cluster, rt containerd, k kubelet, log string, short bool) (*scene, error) {
	s := &scene{cluster: c, rt: rt, kubelet: k, node: fmt.Sprintf("d%08x", rand.Uint32())}
	var err error
	if s.dir, err = os.MkdirTemp("", "disturb-"); err != nil {
		return nil, err
	}
	s.agent = &agent{program: s.path("kubelet"), log: log, onExit: s.agentExited}
	if err := s.setUp(ctx, short); err != nil {
		return nil, errors.Join(fmt.Errorf("%s on %s: %w", k.name, rt.name, err), s.close(ctx))
	}
	return s, nil
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

func (s *scene) setUp(ctx context.Context, short bool) error {
	if err := s.createNamespace(ctx); err != nil {
		return err
	}
	if err := s.prepare(ctx, short); err != nil {
		return err
	}
	if err := s.agent.start(ctx); err != nil {
		return err
	}
	if err := until(ctx, "the node is ready", func() error { return s.nodeReady(ctx) }); err != nil {
		return err
	}
	if err := s.create(ctx, s.namespaced("services"), "{metadata: {name: web}, spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}"); err != nil {
		return err
	}
	for name := range podSpecs {
		if err := s.create(ctx, s.namespaced("pods"), s.pod(name)); err != nil {
			return err
		}
	}
	if err := os.Rename(s.path("static.yaml"), s.path("manifests/static.yaml")); err != nil {
		return err
	}
	if err := until(ctx, "the pods are ready", func() error { return s.podsReady(ctx) }); err != nil {
		return err
	}
	if took := shortCertificate - time.Until(s.expires); short && took > setUpLimit {
		return fmt.Errorf("the start took %s, and the certificate may be renewed", took)
	}
	return sleep(ctx, 3*time.Second) // for late events and statuses
}

// createNamespace returns once pods can be created. The controller manager may take half a minute
// after an absence of the API server.
func (s *scene) createNamespace(ctx context.Context) error {
	if err := s.create(ctx, "/api/v1/namespaces", "{metadata: {name: "+s.node+"}}"); err != nil {
		return err
	}
	return until(ctx, "pods have a service account", func() error {
		_, err := s.do(ctx, http.MethodGet, s.namespaced("serviceaccounts/default"), "")
		return err
	})
}

// prepare writes all files.
func (s *scene) prepare(ctx context.Context, short bool) error {
	credentials, err := s.credentials(ctx, short)
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	for _, name := range []string{"manifests", "pki"} {
		if err := os.Mkdir(s.path(name), 0o755); err != nil {
			return err
		}
	}
	files := map[string]string{"config.yaml": fmt.Sprintf(settings, s.rt.endpoint, port, s.path("manifests"), s.path("logs"), short), "static.yaml": s.static()}
	maps.Copy(files, credentials)
	for name, text := range files {
		if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	s.agent.args = []string{"--config=" + s.path("config.yaml"), "--root-dir=" + s.path("root"), "--cert-dir=" + s.path("pki"), "--hostname-override=" + s.node, "--kubeconfig=" + s.path("kubeconfig")}
	if short {
		s.agent.args = append(s.agent.args, "--bootstrap-kubeconfig="+s.path("bootstrap"))
		if err := os.Symlink("kubelet-client-first.pem", s.path("pki/kubelet-client-current.pem")); err != nil {
			return err
		}
	}
	return os.Symlink(s.kubelet.before, s.path("kubelet"))
}

func (s *scene) namespaced(path string) string { return "/api/v1/namespaces/" + s.node + "/" + path }

// settings of both kubelets. Without cgroups of pods and without iptables they leave the machine as
// it is.
const settings = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: %s
address: 127.0.0.1
port: %d
staticPodPath: %s
podLogsDir: %s
rotateCertificates: %t
healthzPort: 0
clusterDNS: [192.0.2.53]
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
makeIPTablesUtilChains: false
evictionHard: {memory.available: 100Mi}
imageGCHighThresholdPercent: 100
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
`

// credentials returns the files of the node's credentials.
func (s *scene) credentials(ctx context.Context, short bool) (map[string]string, error) {
	request := func(user, group string, valid time.Duration) (string, error) {
		body, err := s.plane(ctx, http.MethodGet, "/kubeconfig?"+url.Values{"user": {user}, "group": {group}, "valid": {valid.String()}}.Encode())
		return string(body), err
	}
	if !short {
		text, err := request("system:node:"+s.node, "system:nodes", 24*time.Hour)
		return map[string]string{"kubeconfig": text}, err
	}
	for name, subject := range map[string][2]string{
		"system:node-bootstrapper": {"Group", "system:bootstrappers"},
		"system:certificates.k8s.io:certificatesigningrequests:nodeclient":     {"Group", "system:bootstrappers"},
		"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": {"Group", "system:nodes"},
	} {
		err := s.create(ctx, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", fmt.Sprintf(
			"{metadata: {name: 'disturb:%s'}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: '%[1]s'}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: %s, name: '%s'}]}",
			name, subject[0], subject[1]))
		if err != nil {
			return nil, err
		}
	}
	bootstrap, err := request("system:bootstrap:"+s.node, "system:bootstrappers", 24*time.Hour)
	if err != nil {
		return nil, err
	}
	text, err := request("system:node:"+s.node, "system:nodes", shortCertificate)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.Load([]byte(text))
	if err != nil {
		return nil, err
	}
	var pair []byte
	for _, user := range config.AuthInfos {
		block, _ := pem.Decode(user.ClientCertificateData)
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		s.expires = certificate.NotAfter
		pair = slices.Concat(user.ClientCertificateData, user.ClientKeyData)
		user.ClientCertificateData, user.ClientKeyData = nil, nil
		user.ClientCertificate = s.path("pki/kubelet-client-current.pem")
		user.ClientKey = user.ClientCertificate
	}
	pointing, err := clientcmd.Write(*config)
	return map[string]string{"kubeconfig": string(pointing), "bootstrap": bootstrap, "pki/kubelet-client-first.pem": string(pair)}, err
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (s *scene) nodeReady(ctx context.Context) error {
	body, err := s.do(ctx, http.MethodGet, "/api/v1/nodes/"+s.node, "")
	if err != nil {
		return err
	}
	var n v1.Node
	if err := json.Unmarshal(body, &n); err != nil {
		return err
	}
	ready := slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue })
	if !ready || len(n.Spec.Taints) > 0 {
		return fmt.Errorf("conditions %v, taints %v", n.Status.Conditions, n.Spec.Taints)
	}
	return nil
}

// pod returns a pod of podSpecs. It is bound to the node, to leave the scheduler out.
func (s *scene) pod(name string) string {
	labels, spec := "", podSpecs[name]
	if strings.Contains(spec, "readinessProbe") {
		labels = ", labels: {app: web}"
	}
	return "{metadata: {name: " + name + labels + "}, spec: {nodeName: " + s.node + ", terminationGracePeriodSeconds: 1, " + images(spec) + "}}"
}

// static returns the manifest of a static pod. Upstream reads a file as JSON if it begins with a
// brace.
func (s *scene) static() string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: static, namespace: " + s.node + "}\nspec: {terminationGracePeriodSeconds: 1, " + images("containers: ["+probed+"]") + "}\n"
}

func images(spec string) string {
	return strings.NewReplacer("TESTPROG", os.Getenv("PODWRIGHT_IMAGE_TESTPROG"), "BUSYBOX", os.Getenv("PODWRIGHT_IMAGE_BUSYBOX")).Replace(spec)
}

const probed = `{name: c, image: TESTPROG, args: [http, ":8080"], readinessProbe: {httpGet: {port: 8080, path: /healthz}, periodSeconds: 1, timeoutSeconds: 10},
	livenessProbe: {httpGet: {port: 8080, path: /healthz}, periodSeconds: 1, timeoutSeconds: 10}}`

// podSpecs are the pods of a scene by name. Those with a readiness probe belong to the service.
var podSpecs = map[string]string{
	"web":   "containers: [" + probed + "]",
	"plain": `containers: [{name: c, image: TESTPROG, args: [run]}]`,
	"sidecar": `initContainers: [{name: i, image: BUSYBOX, command: ["true"]},
	{name: side, image: TESTPROG, args: [run], restartPolicy: Always, startupProbe: {exec: {command: [/testprog, version]}, periodSeconds: 1, timeoutSeconds: 10}}],
	containers: [` + probed + `]`,
	"done": `restartPolicy: Never, containers: [{name: c, image: BUSYBOX, command: ["true"]}]`,
}

// podsReady returns an error unless all pods have their final status, and the ready ones their
// endpoints.
func (s *scene) podsReady(ctx context.Context) error {
	state := objects{}
	for _, r := range s.resources() {
		body, err := s.get(ctx, r.path)
		if err != nil {
			return err
		}
		found, err := r.read(body)
		if err != nil {
			return err
		}
		maps.Copy(state, found)
	}
	if missing := missing(state); len(missing) > 0 {
		return fmt.Errorf("not reached: %s", strings.Join(missing, "; "))
	}
	return nil
}

// missing returns the parts of the initial state that are not reached.
func missing(state objects) (out []string) {
	expect := func(object, field, text string) {
		if state[object][field].text != text {
			out = append(out, object+", "+field+": "+text)
		}
	}
	expect("pod done", "phase", "Succeeded")
	expect("pod done", containerField+"c", stateTerminated)
	for _, pod := range []string{"web", "plain", "sidecar", "static"} {
		expect("pod "+pod, "Ready", "True")
	}
	for _, kind := range []string{"endpoints", "endpointslice"} {
		for _, pod := range []string{"web", "sidecar"} {
			expect(kind+" web", "pod "+pod, endpointReady)
		}
	}
	return out
}

func (s *scene) resources() []resource {
	return []resource{
		{"/api/v1/nodes/" + s.node, nodeObjects},
		{s.namespaced("pods"), podObjects(s.node)},
		{s.namespaced("endpoints"), endpointObjects},
		{"/apis/discovery.k8s.io/v1/namespaces/" + s.node + "/endpointslices", sliceObjects},
	}
}

func (s *scene) events(ctx context.Context) (counts map[string]int, err error) {
	err = until(ctx, "list events", func() error {
		body, err := s.do(ctx, http.MethodGet, "/api/v1/events", "")
		if err != nil {
			return err
		}
		counts, err = eventCounts(body, s.node, s.node)
		return err
	})
	return counts, err
}

// observe returns the effects of do until rest after its end.
func (s *scene) observe(ctx context.Context, rest time.Duration, do func() error) (result, error) {
	r := result{Runtime: s.rt.name, Kubelet: s.kubelet.name}
	before, err := s.events(ctx)
	if err != nil {
		return r, err
	}
	p, err := startPoller(ctx, s.get, s.resources())
	if err != nil {
		return r, err
	}
	s.setPoller(p)
	err = do()
	if err == nil {
		err = sleep(ctx, rest)
	}
	s.setPoller(nil)
	r.Transitions, r.Remaining = p.stop()
	if err != nil {
		return r, err
	}
	after, err := s.events(ctx)
	r.Events = more(before, after)
	return r, err
}

func (s *scene) setPoller(p *poller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.poller = p
}

func (s *scene) agentExited(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	detail := "exit code 0"
	if err != nil {
		detail = err.Error()
	}
	logf("%s on %s exited by itself: %s", s.kubelet.name, s.rt.name, detail)
	if s.poller != nil {
		s.poller.add(transition{Object: "agent", From: "running", To: "exited by itself", Detail: detail})
	}
}

// close kills the kubelet and removes the pods from the runtime and all objects. The testbed
// removes the folder.
func (s *scene) close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	s.agent.stop(syscall.SIGKILL)
	errs := []error{s.runtimes(ctx, "/"+s.rt.key+"/start"), s.removeSandboxes(ctx)}
	for name := range podSpecs {
		errs = append(errs, s.remove(ctx, s.namespaced("pods/"+name+"?gracePeriodSeconds=0")))
	}
	for _, path := range []string{s.namespaced("pods/static-" + s.node + "?gracePeriodSeconds=0"), "/api/v1/namespaces/" + s.node, "/api/v1/nodes/" + s.node} {
		errs = append(errs, s.remove(ctx, path))
	}
	return errors.Join(errs...)
}

func (s *scene) removeSandboxes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	client, err := cri.DialRuntime(ctx, cri.ClientConfig{Endpoint: s.rt.endpoint})
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.ListPodSandbox(ctx, nil)
	if err != nil {
		return err
	}
	var errs []error
	for _, sandbox := range list {
		if err := client.StopPodSandbox(ctx, sandbox.Id); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, client.RemovePodSandbox(ctx, sandbox.Id))
	}
	return errors.Join(errs...)
}
