package podsource

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// web is a manifest with one container; tests append fields.
const web = `apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: app
    image: nginx:1.27
`

func testDecoder() Decoder { return Decoder{NodeName: "Node-1"} }

// Fields that the node does not support are refused like invalid ones, but only in an otherwise
// valid manifest.
func TestDecodeChecks(t *testing.T) {
	d := testDecoder()
	d.Check = func(pod *v1.Pod) []error {
		require.Equal(t, v1.RestartPolicyAlways, pod.Spec.RestartPolicy, "with defaults")
		if !pod.Spec.HostNetwork {
			return nil
		}
		return []error{errors.New("spec.b: not supported"), errors.New("spec.a: not supported")}
	}
	_, err := d.Decode([]byte(web), "file:/m/web.yaml")
	require.NoError(t, err)
	_, err = d.Decode([]byte(web+"  hostNetwork: true\n"), "file:/m/web.yaml")
	require.EqualError(t, err, "spec.a: not supported; spec.b: not supported")
	_, err = d.Decode([]byte(strings.Replace(web, "nginx:1.27", "''", 1)+"  hostNetwork: true\n"), "file:/m/web.yaml")
	require.ErrorContains(t, err, "spec.containers[0].image")
	require.NotContains(t, err.Error(), "not supported")
}

// S5: the UID of a static pod is derived from content, node and file, or is fixed.
func TestDecodeUID(t *testing.T) {
	uid := func(manifest, node, origin string) types.UID {
		pod, err := Decoder{NodeName: node}.Decode([]byte(manifest), origin)
		require.NoError(t, err)
		return pod.UID
	}
	base := uid(web, "n", "file:/a")
	require.Equal(t, base, uid(web, "n", "file:/a"))
	require.Equal(t, base, uid("# comment\n---\n"+web+"---\n", "n", "file:/a"), "comments do not change the UID")
	require.NotEqual(t, base, uid(web, "m", "file:/a"))
	require.NotEqual(t, base, uid(web, "n", "file:/b"))
	require.NotEqual(t, base, uid(strings.Replace(web, "1.27", "1.28", 1), "n", "file:/a"))
	fixed := strings.Replace(web, "name: web", "name: web\n  uid: abc-1", 1)
	require.Equal(t, types.UID("abc-1"), uid(fixed, "n", "file:/a"))

	d := Decoder{NodeName: "n", UID: func(pod *v1.Pod, origin string) types.UID {
		require.Equal(t, []any{base, "web-n", "default", "file:/a"}, []any{pod.UID, pod.Name, pod.Namespace, origin})
		return "running"
	}}
	for manifest, want := range map[string]types.UID{web: "running", fixed: "abc-1"} {
		pod, err := d.Decode([]byte(manifest), "file:/a")
		require.NoError(t, err)
		require.Equal(t, want, pod.UID)
		require.Equal(t, string(want), pod.Annotations["kubernetes.io/config.hash"])
	}
}

// Defaults that no golden manifest covers.
func TestDecodeDefaults(t *testing.T) {
	pod, err := testDecoder().Decode([]byte(web+indent("ports: [{containerPort: 80}]\nreadinessProbe: {grpc: {port: 90}}\n"+
		"env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]\nsecurityContext: {}", 4)+
		"  hostNetwork: true\n  volumes: [{name: h, hostPath: {path: /x}}]\n"), "")
	require.NoError(t, err)
	c := pod.Spec.Containers[0]
	require.Equal(t, v1.HostPathUnset, *pod.Spec.Volumes[0].HostPath.Type)
	require.Equal(t, v1.ContainerPort{ContainerPort: 80, HostPort: 80, Protocol: v1.ProtocolTCP}, c.Ports[0])
	require.Equal(t, "", *c.ReadinessProbe.GRPC.Service)
	require.Equal(t, "v1", c.Env[0].ValueFrom.FieldRef.APIVersion)
	require.Nil(t, c.SecurityContext.ProcMount)
}

func TestDefaultPullPolicy(t *testing.T) {
	for image, want := range map[string]v1.PullPolicy{
		"nginx":                  v1.PullAlways,
		"nginx:latest":           v1.PullAlways,
		"nginx:1.27":             v1.PullIfNotPresent,
		"host:5000/nginx":        v1.PullAlways,
		"host:5000/nginx:1":      v1.PullIfNotPresent,
		"nginx@sha256:0123":      v1.PullIfNotPresent,
		"nginx:latest@sha256:01": v1.PullIfNotPresent,
	} {
		require.Equal(t, want, defaultPullPolicy(image), image)
	}
}

// Refused manifests: each error names the field. S10: they include a static pod that refers to a
// secret or a service account.
func TestDecodeRefuses(t *testing.T) {
	var manyLabels strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&manyLabels, "  %s.example/label-%d: v\n", strings.Repeat("a.", 80), i)
	}
	container := func(fields string) string { return web + indent(fields, 4) }
	spec := func(fields string) string { return strings.Replace(web, "spec:\n", "spec:\n"+indent(fields, 2), 1) }
	meta := func(fields string) string {
		return strings.Replace(web, "metadata:\n  name: web\n", "metadata:\n"+indent(fields, 2), 1)
	}
	for name, c := range map[string]struct{ manifest, want string }{
		"empty":                          {"", "manifest is empty"},
		"comments only":                  {"# nothing\n---\n", "manifest is empty"},
		"binary":                         {"\x7fELF\x00\x01", "not text"},
		"not UTF-8":                      {"\xff\xfe\x41", "not text"},
		"not YAML":                       {"a: [1,\nb: {", "yaml"},
		"a scalar":                       {"hello", "must be an object"},
		"a list":                         {"- a\n- b", "must be an object"},
		"two pods":                       {web + "---\n" + web, "2 YAML documents"},
		"no kind":                        {"apiVersion: v1\nmetadata: {}", "kind: Required"},
		"deployment":                     {"apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 1}", "kind: Unsupported value: \"Deployment\""},
		"wrong version":                  {"apiVersion: v2\nkind: Pod", "apiVersion: Unsupported"},
		"unknown field":                  {container("imagePullPolize: Always"), `unknown field "spec.containers[0].imagePullPolize"`},
		"repeated field":                 {container("image: other"), `"image" already set`},
		"wrong case":                     {container("Command: [a]"), `unknown field "spec.containers[0].Command"`},
		"wrong type":                     {container("ports: none"), "ports"},
		"bad quantity":                   {container("resources: {limits: {cpu: fast}}"), "spec.containers[0].resources.limits[cpu]"},
		"negative quantity":              {container("resources: {limits: {cpu: -1}}"), "spec.containers[0].resources.limits[cpu]"},
		"infinite quantity":              {container("resources: {limits: {cpu: .inf}}"), "spec.containers[0].resources.limits.cpu: must be a finite number"},
		"bool for a quantity":            {container("resources: {limits: {cpu: true}}"), "spec.containers[0].resources.limits[cpu]"},
		"very large exponent":            {container("resources: {limits: {cpu: 1e2000000000}, requests: {cpu: 1}}"), "spec.containers[0].resources.limits[cpu]: Invalid value: \"1e2000000000\": must be at most 9223372036854775"},
		"quantity that is slow to parse": {container("resources: {limits: {cpu: 10000000000000000000e2000000000}}"), "spec.containers[0].resources.limits[cpu]"},
		"tiny quantity":                  {container("resources: {limits: {cpu: '1e-400'}}"), "spec.containers[0].resources.limits[cpu]"},
		"digits":                         {container("resources: {limits: {cpu: " + strings.Repeat("9", 1<<20) + "}}"), "spec.containers[0].resources.limits[cpu]"},
		"too much memory":                {container("resources: {limits: {memory: 1e19}}"), "spec.containers[0].resources.limits[memory]: Invalid value: 10000000000000000000: must be at most 9223372036854775807"},
		"too much cpu":                   {container("resources: {limits: {cpu: 1Ei}}"), "spec.containers[0].resources.limits[cpu]: Invalid value: \"1Ei\": must be at most 9223372036854775"},
		"pod resources":                  {spec("resources: {limits: {memory: fast}}"), "spec.resources.limits[memory]: Invalid value"},
		"overhead":                       {spec("overhead: {memory: -1}"), "spec.overhead[memory]: Invalid value: -1: must not be negative"},
		"size limit":                     {spec("volumes: [{name: v, emptyDir: {sizeLimit: 1Zi}}]"), "spec.volumes[0].emptyDir.sizeLimit: Invalid value: \"1Zi\""},
		"large size limit":               {spec("volumes: [{name: v, emptyDir: {sizeLimit: 9223372036854775808}}]"), "spec.volumes[0].emptyDir.sizeLimit: Invalid value"},
		"negative size limit":            {spec("volumes: [{name: v, emptyDir: {sizeLimit: -1}}]"), "spec.volumes[0].emptyDir.sizeLimit: Invalid value: -1: must not be negative"},
		"divisor": {container("env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1e400}}}]"),
			"spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value"},
		"time":                     {meta("name: a\ncreationTimestamp: yesterday"), "metadata.creationTimestamp: Invalid value: \"yesterday\""},
		"late time":                {meta("name: a\ncreationTimestamp: \"10000-01-01T00:00:00Z\""), "metadata.creationTimestamp: Invalid value"},
		"invalid time in a status": {web + "status: {conditions: [{type: Ready, status: x, lastTransitionTime: 5}]}", "status.conditions[0].lastTransitionTime: Invalid value"},
		"generation":               {meta("name: a\ngeneration: -1"), "metadata.generation: Invalid value"},
		"large generation":         {meta("name: a\ngeneration: 9223372036854775808"), "metadata.generation: Invalid value: 9223372036854775808"},
		"deletion grace":           {meta("name: a\ndeletionGracePeriodSeconds: -5"), "metadata.deletionGracePeriodSeconds: Invalid value"},
		"string for a port":        {container("ports: [{containerPort: 1}, {containerPort: 2, hostPort: \"80\"}]"), "spec.containers[0].ports[1].hostPort: Invalid value: \"80\""},
		"large port":               {container("ports: [{containerPort: 4294967376}]"), "spec.containers[0].ports[0].containerPort: Invalid value: 4294967376"},
		"fraction for a port":      {container("ports: [{containerPort: 80.5}]"), "spec.containers[0].ports[0].containerPort: Invalid value: 80.5"},
		"list for a map":           {web + "status: [1]", "status: Invalid value"},
		"map for a list":           {spec("volumes: {name: v}"), "spec.volumes: Invalid value"},
		"map for a string":         {spec("hostname: {name: v}"), "spec.hostname: Invalid value"},
		"bool for a string":        {meta("name: a\nlabels: {b: y}"), "metadata.labels[b]: Invalid value: true"},
		"limit below request":      {container("resources: {limits: {cpu: 1}, requests: {cpu: 2}}"), "spec.containers[0].resources.requests[cpu]"},
		"no name":                  {meta("labels: {a: b}"), "metadata.name: Required"},
		"bad name":                 {meta("name: Web_1"), "metadata.name: Invalid"},
		"long name":                {meta("name: " + strings.Repeat("a", 250)), "with the node's name"},
		"bad namespace":            {meta("name: a\nnamespace: a.b"), "metadata.namespace"},
		"uid as path":              {meta("name: a\nuid: ../../etc"), "metadata.uid"},
		"uid dots":                 {meta("name: a\nuid: \"..\""), "metadata.uid"},
		"mirror":                   {meta("name: a\nannotations: {kubernetes.io/config.mirror: x}"), "config.mirror"},
		"deleting":                 {meta("name: a\ndeletionTimestamp: \"2026-01-01T00:00:00Z\""), "metadata.deletionTimestamp"},
		"bad label":                {meta("name: a\nlabels: {a: \"b c\"}"), "metadata.labels[a]"},
		"no containers":            {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}", "spec.containers: Required"},
		"no image":                 {strings.Replace(web, "image: nginx:1.27", "command: [a]", 1), "spec.containers[0].image: Required"},
		"container name":           {strings.Replace(web, "name: app", "name: App", 1), "spec.containers[0].name"},
		"container twice":          {web + "  - {name: app, image: b}\n", "spec.containers[1].name: Duplicate"},
		"init container name":      {spec("initContainers: [{name: app, image: b}]"), "spec.containers[0].name: Duplicate"},
		"probe in init":            {spec("initContainers: [{name: i, image: b, livenessProbe: {exec: {command: [a]}}}]"), "spec.initContainers[0]: Forbidden"},
		"restart policy":           {spec("restartPolicy: Sometimes"), "spec.restartPolicy: Unsupported"},
		"dns policy":               {spec("dnsPolicy: Mine"), "spec.dnsPolicy: Unsupported"},
		"dns none":                 {spec("dnsPolicy: None"), "spec.dnsConfig.nameservers: Required"},
		"deadline":                 {spec("activeDeadlineSeconds: 0"), "spec.activeDeadlineSeconds"},
		"windows":                  {spec("os: {name: windows}"), "spec.os.name"},
		"ephemeral":                {spec("ephemeralContainers: [{name: e, image: b}]"), "spec.ephemeralContainers"},
		"port range":               {container("ports: [{containerPort: 70000}]"), "spec.containers[0].ports[0].containerPort"},
		"port zero":                {container("ports: [{hostPort: 1}]"), "spec.containers[0].ports[0].containerPort"},
		"host port twice":          {container("ports: [{containerPort: 1, hostPort: 5}, {containerPort: 2, hostPort: 5}]"), "spec.containers[0].ports[1].hostPort: Duplicate"},
		"protocol":                 {container("ports: [{containerPort: 1, protocol: ICMP}]"), "spec.containers[0].ports[0].protocol"},
		"unknown volume":           {container("volumeMounts: [{name: v, mountPath: /v}]"), "spec.containers[0].volumeMounts[0].name: Not found"},
		"relative mount":           {spec("volumes: [{name: v, hostPath: {path: /x}}]") + indent("volumeMounts: [{name: v, mountPath: v}]", 4), "spec.containers[0].volumeMounts[0].mountPath"},
		"mount twice":              {spec("volumes: [{name: v, hostPath: {path: /x}}]") + indent("volumeMounts: [{name: v, mountPath: /v}, {name: v, mountPath: /v/}]", 4), "spec.containers[0].volumeMounts[1].mountPath: Duplicate"},
		"mount with colon":         {spec("volumes: [{name: v, hostPath: {path: /x}}]") + indent("volumeMounts: [{name: v, mountPath: \"/v:ro\"}]", 4), "spec.containers[0].volumeMounts[0].mountPath: Invalid"},
		"message path":             {container("terminationMessagePath: /dev/../etc/x"), "spec.containers[0].terminationMessagePath: Invalid"},
		"node name":                {spec("nodeName: other"), `spec.nodeName: Invalid value: "other": must be empty or the name of this node, "Node-1"`},
		"annotations":              {meta("name: a\nannotations: {a: " + strings.Repeat("x", 128<<10) + ", b: " + strings.Repeat("x", 128<<10) + "}"), "metadata.annotations: Too long: may not be more than 262144 bytes"},
		"labels":                   {meta("name: a\nlabels:\n" + manyLabels.String()), "metadata.labels: Too long: may not be more than 262144 bytes"},
		"host alias":               {spec("hostAliases: [{ip: 1.2.3.4, hostnames: [a, \"b\\n6.6.6.6 c\"]}]"), "spec.hostAliases[0].hostnames[1]: Invalid"},
		"nameserver":               {spec("dnsConfig: {nameservers: [1.2.3.4, \"1.2.3.5\\nx\"]}"), "spec.dnsConfig.nameservers[1]: Invalid"},
		"search":                   {spec("dnsConfig: {searches: [a.b, \"a\\nnameserver 6.6.6.6\"]}"), "spec.dnsConfig.searches[1]: Invalid"},
		"resolver option":          {spec("dnsConfig: {options: [{name: \"a\\nb\"}]}"), "spec.dnsConfig.options[0].name: Invalid"},
		"resolver value":           {spec("dnsConfig: {options: [{name: a, value: \"1\\n2\"}]}"), "spec.dnsConfig.options[0].value: Invalid"},
		"long deadline":            {spec("activeDeadlineSeconds: 2147483648"), "spec.activeDeadlineSeconds"},
		"sub path":                 {spec("volumes: [{name: v, hostPath: {path: /x}}]") + indent("volumeMounts: [{name: v, mountPath: /v, subPath: ../x}]", 4), "volumeMounts[0].subPath"},
		"propagation":              {spec("volumes: [{name: v, hostPath: {path: /x}}]") + indent("volumeMounts: [{name: v, mountPath: /v, mountPropagation: Bidirectional}]", 4), "volumeMounts[0].mountPropagation"},
		"volume twice":             {spec("volumes: [{name: v, hostPath: {path: /x}}, {name: v, hostPath: {path: /y}}]"), "spec.volumes[1].name: Duplicate"},
		"volume of two kinds":      {spec("volumes: [{name: v, hostPath: {path: /x}, nfs: {server: a, path: /b}}]"), "spec.volumes[0].nfs: Forbidden"},
		"volume kind":              {spec("volumes: [{name: v, emptyDir: {}}]"), "spec.volumes[0].emptyDir: Forbidden"},
		"volume without kind":      {spec("volumes: [{name: v}]"), "spec.volumes[0].emptyDir: Forbidden"},
		"host path":                {spec("volumes: [{name: v, hostPath: {path: /x/../y}}]"), "spec.volumes[0].hostPath.path"},
		"host path type":           {spec("volumes: [{name: v, hostPath: {path: /x, type: Thing}}]"), "spec.volumes[0].hostPath.type"},
		"env name":                 {container("env: [{name: \"a=b\"}]"), "spec.containers[0].env[0].name"},
		"env source":               {container("env: [{name: a, valueFrom: {}}]"), "spec.containers[0].env[0].valueFrom"},
		"probe handler":            {container("livenessProbe: {periodSeconds: 1}"), "spec.containers[0].livenessProbe"},
		"probe number":             {container("livenessProbe: {exec: {command: [a]}, periodSeconds: -1}"), "livenessProbe.periodSeconds"},
		"probe port":               {container("livenessProbe: {tcpSocket: {port: 0}}"), "livenessProbe.tcpSocket.port"},
		"hook":                     {container("lifecycle: {preStop: {}}"), "lifecycle.preStop"},
		"user":                     {container("securityContext: {runAsUser: -5}"), "spec.containers[0].securityContext.runAsUser"},
		"secret volume":            {spec("volumes: [{name: v, secret: {secretName: s}}]"), "spec.volumes[0].secret: Forbidden: a static pod must not refer to a Secret"},
		"CSI volume":               {spec("volumes: [{name: v, csi: {driver: d}}]"), "spec.volumes[0].csi: Forbidden: a static pod must not refer to a CSIDriver"},
		"CSI secret":               {spec("volumes: [{name: v, csi: {driver: d, nodePublishSecretRef: {name: s}}}]"), "spec.volumes[0].csi.nodePublishSecretRef: Forbidden: a static pod must not refer to a Secret"},
		"CSI driver":               {spec("volumes: [{name: v, csi: {driver: ../d}}]"), "spec.volumes[0].csi.driver: Invalid value"},
		"CSI driver, long":         {spec("volumes: [{name: v, csi: {driver: " + strings.Repeat("d", 64) + "}}]"), "spec.volumes[0].csi.driver: Too long"},
		"CSI secret, no name":      {spec("volumes: [{name: v, csi: {driver: d, nodePublishSecretRef: {}}}]"), "spec.volumes[0].csi.nodePublishSecretRef.name: Required"},
		"projected token":          {spec("volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]"), "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden"},
		"claim":                    {spec("volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]"), "spec.volumes[0].persistentVolumeClaim: Forbidden"},
		"service account":          {spec("serviceAccountName: sa"), "spec.serviceAccountName: Forbidden"},
		"pull secret":              {spec("imagePullSecrets: [{name: s}]"), "spec.imagePullSecrets[0]: Forbidden"},
		"secret env":               {container("env: [{name: a, valueFrom: {secretKeyRef: {name: s, key: k}}}]"), "spec.containers[0].env[0].valueFrom.secretKeyRef: Forbidden"},
		"config map env":           {container("envFrom: [{configMapRef: {name: s}}]"), "spec.containers[0].envFrom[0].configMapRef: Forbidden"},
		"resource claim":           {spec("resourceClaims: [{name: c, resourceClaimName: x}]"), "spec.resourceClaims[0]: Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			pod, err := testDecoder().Decode([]byte(c.manifest), "file:/m")
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "\n")
			require.Nil(t, pod)
		})
	}
}

// The largest numbers, and untyped values, are accepted unchanged.
func TestDecodeAccepts(t *testing.T) {
	manifest := strings.Replace(web, "metadata:\n", "metadata:\n  generation: 9223372036854775807\n  creationTimestamp: \"9999-12-31T23:59:59Z\"\n"+
		"  managedFields: [{time: null, fieldsV1: {a: {b: 1}}}]\n", 1)
	pod, err := testDecoder().Decode([]byte(manifest+indent("resources: {limits: {memory: 9223372036854775807, cpu: 0.0000001, x/y: 0e9}}\n"+
		"livenessProbe: {httpGet: {port: web}, periodSeconds: 2147483647}\nstdin: null", 4)), "")
	require.NoError(t, err)
	require.EqualValues(t, math.MaxInt64, pod.Generation)
	require.EqualValues(t, math.MaxInt64, pod.Spec.Containers[0].Resources.Limits.Memory().Value())
	require.EqualValues(t, math.MaxInt32, pod.Spec.Containers[0].LivenessProbe.PeriodSeconds)
}

// A merge key adds the fields of another map, as in YAML 1.1. The map's own fields win. A
// repeated field of one map is an error.
func TestDecodeMergeKeys(t *testing.T) {
	merging := func(fields string) string {
		return strings.Replace(web, "- name: app", "- name: app\n    resources: &a {limits: {cpu: 1}}", 1) +
			"  - name: b\n    image: x\n    resources:\n      <<: *a\n" + indent(fields, 6)
	}
	pod, err := testDecoder().Decode([]byte(merging("requests: {cpu: 1}")), "")
	require.NoError(t, err)
	require.Equal(t, "1", pod.Spec.Containers[1].Resources.Limits.Cpu().String())
	pod, err = testDecoder().Decode([]byte(merging("limits: {cpu: 2}")), "")
	require.NoError(t, err)
	require.Equal(t, "2", pod.Spec.Containers[1].Resources.Limits.Cpu().String())
	_, err = testDecoder().Decode([]byte(merging("limits: {cpu: 2}\nlimits: {cpu: 3}")), "")
	require.EqualError(t, err, `line 15: key "limits" already set in map`)
	pods, err := testDecoder().DecodeAll([]byte("kind: PodList\napiVersion: v1\nitems: [&p {metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}, {metadata: {name: b}, <<: *p}]"), "")
	require.NoError(t, err)
	require.Equal(t, "b-node-1", pods[1].Name)
}

// The API server's conversions, which precede its validation.
func TestDecodeConverts(t *testing.T) {
	manifest := `
apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations: {a: b, pod.beta.kubernetes.io/init-containers: x, pod.alpha.kubernetes.io/init-container-statuses: x}
spec:
  terminationGracePeriodSeconds: -5
  serviceAccount: sa
  overhead: {cpu: 1u}
  tolerations: [{operator: Exists, effect: NoExecute, tolerationSeconds: 30}]
  resources: {requests: {cpu: 1}}
  containers: [{name: c, image: i, resources: {limits: {hugepages-2Mi: 4Mi, memory: 1Gi}}}]
  volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]
status: {phase: Running, podIP: 10.0.0.1}
`
	d := testDecoder()
	d.Volumes, d.Objects = []string{"ephemeral"}, []string{"ServiceAccount", "PersistentVolumeClaim"}
	pod, err := d.Decode([]byte(manifest), "")
	require.NoError(t, err)
	require.EqualValues(t, 1, *pod.Spec.TerminationGracePeriodSeconds)
	require.Equal(t, []string{"sa", "sa"}, []string{pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount})
	require.Equal(t, map[string]string{"a": "b", "kubernetes.io/config.hash": string(pod.UID)}, pod.Annotations)
	require.Equal(t, "1m", pod.Spec.Overhead.Cpu().String())
	require.Equal(t, []v1.Toleration{{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}}, pod.Spec.Tolerations)
	require.Equal(t, v1.PersistentVolumeFilesystem, *pod.Spec.Volumes[0].Ephemeral.VolumeClaimTemplate.Spec.VolumeMode)
	require.Equal(t, v1.PodStatus{Phase: v1.PodPending}, pod.Status)
	hugePages := func(l v1.ResourceList) string { q := l["hugepages-2Mi"]; return q.String() }
	resources := pod.Spec.Resources
	require.Len(t, resources.Limits, 1)
	require.Equal(t, "4Mi", hugePages(resources.Limits))
	require.Equal(t, []string{"1", "1Gi", "4Mi"}, []string{resources.Requests.Cpu().String(), resources.Requests.Memory().String(), hugePages(resources.Requests)})
}

func TestDecodeConfiguredSupport(t *testing.T) {
	manifest := web + `  serviceAccountName: sa
  volumes:
  - name: s
    secret: {secretName: s}
  - name: e
    emptyDir: {}
`
	_, err := Decoder{NodeName: "n", Volumes: []string{"secret", "emptyDir"}, Objects: []string{"Secret", "ServiceAccount"}}.Decode([]byte(manifest), "")
	require.NoError(t, err)
	_, err = Decoder{NodeName: "n", Volumes: []string{}}.Decode([]byte(web), "")
	require.NoError(t, err)
	_, err = Decoder{}.Decode([]byte(web), "")
	require.ErrorContains(t, err, "NodeName")
}

func TestDecodeErrorIsStable(t *testing.T) {
	manifest := web + indent("livenessProbe: {periodSeconds: -1, timeoutSeconds: -1, failureThreshold: -1, successThreshold: -1}\nports: [{containerPort: -1}, {containerPort: -2}]", 4)
	_, first := testDecoder().Decode([]byte(manifest), "")
	require.ErrorContains(t, first, "more")
	for range 50 {
		_, err := testDecoder().Decode([]byte(manifest), "")
		require.EqualError(t, err, first.Error())
	}
}

func TestCountDocuments(t *testing.T) {
	for manifest, want := range map[string]int{
		"":                     0,
		"# c\n":                0,
		"---\n---\n":           0,
		"a: b":                 1,
		"---\na: b\n...\n":     1,
		"%YAML 1.1\n---\na: b": 1,
		"--- {a: b}\n":         1,
		"a: b\n---\n# end\n":   1,
		"a: b\n--- \nc: d":     2,
		"a: b\r\n---\r\nc: d":  2,
		"a: ---b\n----: c":     1,
		"a: |\n  ---\n  b\n":   1,
		"a: b\n...\nc: d\n":    2,
		"{\n\"a\": \"---\"\n}": 1,
	} {
		require.Equal(t, want, countDocuments([]byte(manifest)), "%q", manifest)
	}
}

func indent(text string, by int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		fmt.Fprint(&b, strings.Repeat(" ", by), strings.TrimSuffix(line, "\n"), "\n")
	}
	return b.String()
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		web, "", "---\n", "a: &a [*a]", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[{"name":"a","image":"b"}]}}`,
		web + indent("resources: {limits: {cpu: fast}}", 4), web + "  volumes: [{name: v, hostPath: {path: /x}}]\n",
		web + indent("securityContext: {runAsUser: -1}\nports: [{containerPort: 1}]\nlivenessProbe: {httpGet: {port: a}}", 4),
		"kind: Pod\napiVersion: v1\nmetadata: null\nspec: null\n",
	} {
		f.Add([]byte(seed))
	}
	d := Decoder{NodeName: "n", Volumes: []string{"hostPath", "emptyDir", "projected", "downwardAPI"}}
	f.Fuzz(func(t *testing.T, manifest []byte) {
		pod, err := d.Decode(manifest, "file:/f")
		if err != nil {
			require.Nil(t, pod)
			require.NotEmpty(t, err.Error())
			require.NotContains(t, err.Error(), "\n")
			require.Less(t, len(err.Error()), 1000)
			return
		}
		require.NotEmpty(t, pod.UID)
		require.NotContains(t, string(pod.UID), "/")
		require.NotEmpty(t, pod.Spec.Containers)
		again, err := d.Decode(manifest, "file:/f")
		require.NoError(t, err)
		require.Equal(t, pod, again)
	})
}
