package config

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/podwright/podwright/examples/kubelet/node"
)

var fileSettings = []setting{
	{flag: "config", text: "configuration file, a KubeletConfiguration", isPath: true, to: func(l *commandLine) any { return &l.config }},
	{flag: "config-dir", text: "folder of files *.conf that override the configuration file, in the order of their paths", isPath: true, to: func(l *commandLine) any { return &l.configDir }},
	{field: "apiVersion", text: "version of the file", preset: apiVersion},
	{field: "kind", text: "kind of the file", preset: kind},
	{flag: "root-dir", text: "folder of the kubelet's files", preset: "/var/lib/kubelet; with the embedded runtime podwright in the user's state folder", isPath: true, to: func(l *commandLine) any { return &l.flags.RootDir }},
	{flag: "cert-dir", text: "folder of the kubelet's certificates", preset: "pki below --root-dir", isPath: true, to: func(l *commandLine) any { return &l.flags.CertDir }},
	{flag: "objects-dir", text: "folder of the ConfigMaps, Secrets, tokens and trust bundles of static pods; not in upstream", isPath: true, to: func(l *commandLine) any { return &l.flags.ObjectsDir }},
	{flag: "lock-file", text: "file that is locked while the kubelet runs; the kubelet waits for the lock", isPath: true, to: func(l *commandLine) any { return &l.flags.LockFile }},
	{flag: "exit-on-lock-contention", text: "end when another process requests the lock of --lock-file", isSwitch: true, to: func(l *commandLine) any { return &l.flags.ExitOnLockContention }},
	{flag: "version", text: "print the version and end", isSwitch: true, to: func(l *commandLine) any { return &l.version }},
}

var nodeSettings = []setting{
	{flag: "kubeconfig", text: "kubeconfig of the API server; without it the kubelet runs static pods only", isPath: true, to: func(l *commandLine) any { return &l.flags.Kubeconfig }},
	{flag: "bootstrap-kubeconfig", text: "kubeconfig that may request a client certificate, to create a missing --kubeconfig", isPath: true, to: func(l *commandLine) any { return &l.flags.BootstrapKubeconfig }},
	{flag: "hostname-override", text: "name of the node", preset: "the host's name", to: func(l *commandLine) any { return &l.flags.NodeName }},
	{flag: "node-ip", text: "address of the node, or one of each family as IPV4,IPV6; 0.0.0.0 or :: selects the preferred family", preset: "an address of the host",
		parse: func(f *Flags, text string) (err error) { f.NodeIP, err = node.ParseNodeIPs(text); return err },
		show:  func(f *Flags) string { return joined(f.NodeIP, netip.Addr.String) }},
	{flag: "node-labels", text: "labels of the Node at its registration, as key=value,key=value",
		parse: func(f *Flags, text string) (err error) { f.NodeLabels, err = node.ParseLabels(text); return err },
		show: func(f *Flags) string {
			return joined(slices.Sorted(maps.Keys(f.NodeLabels)), func(key string) string { return key + "=" + f.NodeLabels[key] })
		}},
	{flag: "cloud-provider", text: "\"external\" if a cloud provider completes the Node before pods are scheduled to it",
		parse: func(f *Flags, text string) (err error) {
			f.ExternalCloud, err = node.ParseCloudProvider(text)
			return err
		},
		show: func(f *Flags) string { return map[bool]string{true: "external"}[f.ExternalCloud] }},
	{field: "registerNode", flag: "register-node", text: "create the Node; if false, another program must create it"},
	{field: "registerWithTaints", flag: "register-with-taints", text: "taints of the Node at its registration, as key=value:effect,key:effect", read: readTaints},
	{field: "providerID", flag: "provider-id", text: "identifier of the machine at the cloud provider"},
	{field: "nodeStatusUpdateFrequency", flag: "node-status-update-frequency", text: "period of computing the Node's status", limits: atLeast(1)},
	{field: "nodeStatusReportFrequency", text: "period of reporting an unchanged status", preset: "5m0s, or nodeStatusUpdateFrequency if that is set", limits: atLeast(1)},
	{field: "nodeLeaseDurationSeconds", text: "duration of the Node's lease", limits: atLeast(1)},
	{field: "nodeStatusMaxImages", flag: "node-status-max-images", text: "limit of images in the Node's status; -1: all", limits: atLeast(-1)},
	{field: "contentType", flag: "kube-api-content-type", text: "encoding for the API server", allowed: []string{"application/vnd.kubernetes.protobuf", "application/json"}},
	{field: "kubeAPIQPS", flag: "kube-api-qps", text: "calls to the API server per second", limits: atLeast(0)},
	{field: "kubeAPIBurst", flag: "kube-api-burst", text: "limit of calls to the API server at once", limits: atLeast(0)},
	{field: "eventRecordQPS", flag: "event-qps", text: "events per second; 0: no limit", limits: atLeast(0)},
	{field: "eventBurst", flag: "event-burst", text: "limit of events at once", limits: atLeast(0)},
	{field: "rotateCertificates", flag: "rotate-certificates", text: "renew the client certificate through the API server"},
	{field: "enableControllerAttachDetach", flag: "enable-controller-attach-detach", class: noEffect, text: "a controller attaches volumes in any case"},
}

var podSettings = []setting{
	{field: "staticPodPath", flag: "pod-manifest-path", text: "folder, or file, of static pods", isPath: true},
	{field: "staticPodURL", flag: "manifest-url", text: "URL of static pods: a Pod or a PodList"},
	{field: "staticPodURLHeader", flag: "manifest-url-header", text: "headers for the URL, as name:value,name:value; repeatable", read: readHeaders},
	{field: "fileCheckFrequency", flag: "file-check-frequency", text: "period of reading static pods without file notifications", limits: atLeast(1)},
	{field: "httpCheckFrequency", flag: "http-check-frequency", text: "period of reading the URL of static pods", limits: atLeast(1)},
	{field: "syncFrequency", flag: "sync-frequency", text: "longest time between two syncs of a pod", limits: atLeast(1)},
	{field: "clusterDNS", flag: "cluster-dns", text: "addresses of the cluster's name servers, separated by commas"},
	{field: "clusterDomain", flag: "cluster-domain", text: "domain of the cluster"},
	{field: "resolvConf", flag: "resolv-conf", text: "file of the host's name servers; empty: none", isPath: true},
	{field: "volumeStatsAggPeriod", flag: "volume-stats-agg-period", text: "period of measuring volumes; negative: never"},
	{field: "hairpinMode", flag: "hairpin-mode", class: noEffect, text: "the network belongs to the container runtime", allowed: []string{"promiscuous-bridge", "hairpin-veth", "none"}},
	{field: "podCIDR", flag: "pod-cidr", class: noEffect, text: "the network belongs to the container runtime"},
	{field: "volumePluginDir", flag: "volume-plugin-dir", class: noEffect, text: "pods with FlexVolumes are rejected"},
	{field: "configMapAndSecretChangeDetectionStrategy", class: noEffect, text: "ConfigMaps and Secrets are watched", allowed: []string{"Watch", "Cache", "Get"}},
	{flag: "experimental-mounter-path", class: noEffect, text: "mount(8) mounts volumes"},
	{field: "defaultPodSysctls", class: noEffect, text: "the field is newer than Kubernetes v1.36"},
	{field: "runOnce", flag: "runonce", class: refused, text: "upstream refuses it as well"},
}
