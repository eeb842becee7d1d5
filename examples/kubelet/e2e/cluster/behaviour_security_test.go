package cluster_test

import (
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/apparmor"
)

// Users, privileges, kernel parameters.
var securities = []behaviour{
	{name: "user and groups", phase: v1.PodSucceeded, logs: []string{`^uid=1000 gid=2000 groups=(2000,)?3000,4000(,2000)?$`},
		spec: `{securityContext: {runAsUser: 1000, runAsGroup: 2000, fsGroup: 3000, supplementalGroups: [4000]}, containers: [{command: [sh, -c, "echo uid=$(id -u) gid=$(id -g) groups=$(id -G | tr ' ' '\\n' | sort -n | tr '\\n' ',' | sed 's/,$//')"]}]}`},
	{name: "container's user before the pod's", phase: v1.PodSucceeded, logs: []string{`^1001$`},
		spec: `{securityContext: {runAsUser: 1000}, containers: [{command: [id, -u], securityContext: {runAsUser: 1001}}]}`},
	{name: "never root", spec: `{securityContext: {runAsNonRoot: true}, containers: [{command: [id, -u]}]}`,
		fields: map[string]string{".status.phase": "Pending", ".status.containerStatuses[0].state.waiting.reason": "CreateContainerConfigError", ".status.containerStatuses[0].state.waiting.message": "(?i).*container has runAsNonRoot and image will run as root.*"}},
	{name: "never root, root requested", spec: `{securityContext: {runAsNonRoot: true, runAsUser: 0}, containers: [{command: [id, -u]}]}`,
		fields: map[string]string{".status.phase": "Pending", ".status.containerStatuses[0].state.waiting.reason": "CreateContainerConfigError"}},
	{name: "never root, another user", phase: v1.PodSucceeded, logs: []string{`^1000$`},
		spec: `{securityContext: {runAsNonRoot: true, runAsUser: 1000}, containers: [{command: [id, -u]}]}`},
	{name: "read-only root", phase: v1.PodSucceeded, logs: []string{`Read-only file system`},
		spec: `{containers: [{command: [sh, -c, "touch /x 2>&1 || true"], securityContext: {readOnlyRootFilesystem: true}}]}`},
	{name: "no new privileges", phase: v1.PodSucceeded, logs: []string{`^NoNewPrivs:\s+1$`},
		spec: `{containers: [{command: [grep, NoNewPrivs, /proc/self/status], securityContext: {runAsUser: 1000, allowPrivilegeEscalation: false}}]}`},
	{name: "new privileges by default", phase: v1.PodSucceeded, logs: []string{`^NoNewPrivs:\s+0$`},
		spec: `{containers: [{command: [grep, NoNewPrivs, /proc/self/status]}]}`},
	{name: "capabilities", phase: v1.PodSucceeded, logs: []string{`^CapEff:\s+0000000000001000$`},
		spec: `{containers: [{command: [grep, CapEff, /proc/self/status], securityContext: {capabilities: {drop: [ALL], add: [NET_ADMIN]}}}]}`},
	{name: "capabilities of the runtime", phase: v1.PodSucceeded, logs: []string{`^CapEff:\s+00000000a80425fb$`},
		spec: `{containers: [{command: [grep, CapEff, /proc/self/status]}]}`},
	{name: "privileged", phase: v1.PodSucceeded, logs: []string{`^devices$`},
		spec: `{containers: [{command: [sh, -c, "test $(ls /dev | wc -l) -gt 20 && echo devices"], securityContext: {privileged: true}}]}`},
	{name: "not privileged", phase: v1.PodSucceeded, logs: []string{`^few$`},
		spec: `{containers: [{command: [sh, -c, "test $(ls /dev | wc -l) -lt 20 && echo few"]}]}`},
	{name: "seccomp of the runtime", phase: v1.PodSucceeded, logs: []string{`^Seccomp:\s+2$`},
		spec: `{securityContext: {seccompProfile: {type: RuntimeDefault}}, containers: [{command: [grep, "^Seccomp:", /proc/self/status]}]}`},
	{name: "no seccomp", phase: v1.PodSucceeded, logs: []string{`^Seccomp:\s+0$`},
		spec: `{securityContext: {seccompProfile: {type: RuntimeDefault}}, containers: [{command: [grep, "^Seccomp:", /proc/self/status], securityContext: {seccompProfile: {type: Unconfined}}}]}`},
	{name: "processes of the machine", phase: v1.PodSucceeded, logs: []string{`^[1-9]\d{2,}$`},
		spec: `{hostPID: true, containers: [{command: [sh, -c, "echo $$$$"]}]}`},
	{name: "processes of its own", phase: v1.PodSucceeded, logs: []string{`^1$`},
		spec: `{containers: [{command: [sh, -c, "echo $$$$"]}]}`},
	{name: "processes of the pod", phase: v1.PodSucceeded, logs: []string{`^pause is 1$`},
		spec: `{shareProcessNamespace: true, containers: [{command: [sh, -c, "test $$$$ -ne 1 && echo pause is 1"]}]}`},
	{name: "safe kernel parameter", phase: v1.PodSucceeded, logs: []string{`^1$`},
		spec: `{securityContext: {sysctls: [{name: kernel.shm_rmid_forced, value: "1"}]}, containers: [{command: [cat, /proc/sys/kernel/shm_rmid_forced]}]}`},
}

// Pods that the node rejects.
var admissions = []behaviour{
	{name: "unsafe kernel parameter", phase: v1.PodFailed, spec: `{securityContext: {sysctls: [{name: kernel.msgmax, value: "10000"}]}, containers: [{command: ["true"]}]}`,
		fields: map[string]string{".status.reason": "SysctlForbidden"}},
	{name: "another operating system", phase: v1.PodFailed, spec: `{os: {name: windows}, containers: [{command: ["true"]}]}`,
		fields: map[string]string{".status.reason": "PodOSNotSupported"}},
	{name: "more cpu than the node has", phase: v1.PodFailed, spec: `{containers: [{command: ["true"], resources: {requests: {cpu: 1000}}}]}`,
		fields: map[string]string{".status.reason": "OutOfcpu", ".status.message": ".*Node didn't have enough resource: cpu, requested: 1000000, used: .*"}},
	{name: "more memory than the node has", phase: v1.PodFailed, spec: `{containers: [{command: ["true"], resources: {requests: {memory: 100Ti}}}]}`,
		fields: map[string]string{".status.reason": "OutOfmemory"}},
	{name: "labels of another node", phase: v1.PodFailed, spec: `{nodeSelector: {no: such}, containers: [{command: ["true"]}]}`,
		fields: map[string]string{".status.reason": "NodeAffinity"}},
	{name: "confined by AppArmor", spec: `{securityContext: {appArmorProfile: {type: RuntimeDefault}}, containers: [{command: ["true"]}]}`,
		fields: map[string]string{".status.phase} {.status.reason}: {.status.message": endOfConfined}},
	{name: "not confined by AppArmor", phase: v1.PodSucceeded, spec: `{securityContext: {appArmorProfile: {type: Unconfined}}, containers: [{command: ["true"]}]}`},
}

// endOfConfined is the end of a pod with an AppArmor profile, which depends on the machine's
// support.
var endOfConfined = map[bool]string{
	true: "Succeeded : ", false: "Failed AppArmor: Pod was rejected: Cannot enforce AppArmor: AppArmor is not enabled on the host",
}[apparmor.Enabled(os.DirFS("/sys"))]

// Addresses, names, and files of the network.
var networks = []behaviour{
	{name: "address of its own", phase: v1.PodRunning, spec: `{containers: [{image: TESTPROG}]}`,
		fields: map[string]string{".status.podIP": `\d+\.\d+\.\d+\.\d+`, ".status.podIPs[0].ip": `\d+\.\d+\.\d+\.\d+`, ".status.hostIP": `\d+\.\d+\.\d+\.\d+`, ".status.hostIPs[0].ip": `\d+\.\d+\.\d+\.\d+`}},
	{name: "address of the machine", phase: v1.PodSucceeded, spec: `{hostNetwork: true, containers: [{command: [sh, -c, "hostname; grep -c 'managed by Kubernetes' /etc/hosts || true"]}]}`,
		then: func(t *testing.T, n *node, pod string) {
			n.waitField(t, "pod", pod, "{.status.podIP}", n.get(t, "pod", pod, "{.status.hostIP}"))
		}},
	{name: "name of the pod", phase: v1.PodSucceeded, logs: []string{`^network-name-of-the-pod$`}, spec: `{containers: [{command: [hostname]}]}`},
	{name: "name and domain", phase: v1.PodSucceeded, logs: []string{`^h$`, `^\d\S+\s+h\.sub\.n[0-9a-f]{8}\.svc\.\S*\s+h$`}, spec: `{hostname: h, subdomain: sub, containers: [{command: [sh, -c, "hostname; cat /etc/hosts"]}]}`},
	{name: "whole name", phase: v1.PodSucceeded, logs: []string{`^h\.sub\.n[0-9a-f]{8}\.svc\..*`}, spec: `{hostname: h, subdomain: sub, setHostnameAsFQDN: true, containers: [{command: [hostname]}]}`},
	{name: "hosts file", phase: v1.PodSucceeded, logs: []string{`^# Kubernetes-managed hosts file\.`, `^127\.0\.0\.1\s+localhost`, `^10\.1\.2\.3\s+foo\s+bar$`},
		spec: `{hostAliases: [{ip: 10.1.2.3, hostnames: [foo, bar]}], containers: [{command: [cat, /etc/hosts]}]}`},
	{name: "hosts file of its own", phase: v1.PodSucceeded, logs: []string{`^own$`}, spec: `{volumes: [{name: v, emptyDir: {}}], initContainers: [{name: i, command: [sh, -c, echo own > /v/h], volumeMounts: [{name: v, mountPath: /v}]}], containers: [{command: [cat, /etc/hosts], volumeMounts: [{name: v, mountPath: /etc/hosts, subPath: h}]}]}`},
	{name: "DNS servers", phase: v1.PodSucceeded, logs: []string{`^nameserver 1\.1\.1\.1$`, `^search a\.example b\.example$`, `^options (ndots:3 edns0|edns0 ndots:3)$`},
		spec: `{dnsPolicy: None, dnsConfig: {nameservers: [1.1.1.1], searches: [a.example, b.example], options: [{name: ndots, value: "3"}, {name: edns0}]}, containers: [{command: [cat, /etc/resolv.conf]}]}`},
	{name: "DNS servers of the machine and more", phase: v1.PodSucceeded, logs: []string{`^nameserver 1\.1\.1\.2$`, `^search .*c\.example`},
		spec: `{dnsPolicy: Default, dnsConfig: {nameservers: [1.1.1.2], searches: [c.example]}, containers: [{command: [cat, /etc/resolv.conf]}]}`},
}
