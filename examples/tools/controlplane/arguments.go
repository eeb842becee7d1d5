package main

import "strconv"

// etcdSocket is the socket of etcd. Other users cannot connect to it, and it needs no port.
const etcdSocket = "etcd.sock"

func (c *cluster) arguments() map[string][]string {
	etcdURL := "unix://" + c.path(etcdSocket)
	return map[string][]string{
		etcd: {
			"--data-dir=" + c.path("etcd"), "--log-level=warn",
			"--listen-client-urls=" + etcdURL, "--advertise-client-urls=unix://etcd.sock:0",
			// The socket is in etcd's working folder. etcd requires a port in the URL.
			"--listen-peer-urls=unix://peer.sock:0", "--initial-advertise-peer-urls=unix://peer.sock:0", "--initial-cluster=default=unix://peer.sock:0",
			"--unsafe-no-fsync", // data need not survive a crash of the machine
		},
		apiServer: {
			"--etcd-servers=" + etcdURL,
			"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(c.port),
			// No client connects from another machine.
			"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
			"--tls-cert-file=" + c.path("apiserver.crt"), "--tls-private-key-file=" + c.path("apiserver.key"),
			"--client-ca-file=" + c.path("ca.crt"),
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-signing-key-file=" + c.path("serviceaccounts.key"), "--service-account-key-file=" + c.path("serviceaccounts.pub"),
			"--kubelet-client-certificate=" + c.path("kubelet-client.crt"), "--kubelet-client-key=" + c.path("kubelet-client.key"),
			"--kubelet-preferred-address-types=InternalIP,Hostname", // names of nodes may not resolve
			"--service-cluster-ip-range=" + serviceRange,
			"--shutdown-watch-termination-grace-period=5s", // default: until clients end their watches
			"--allow-privileged=true",
			"--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true",
			"--runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=true",
			"--profiling=false",
		},
		controllerManager: {
			"--kubeconfig=" + c.path(controllerManager+".kubeconfig"),
			"--secure-port=0", "--leader-elect=false",
			"--kube-api-qps=200", "--kube-api-burst=400", // no other clients compete
			"--use-service-account-credentials=true", "--service-account-private-key-file=" + c.path("serviceaccounts.key"),
			"--root-ca-file=" + c.path("ca.crt"),
			"--cluster-signing-cert-file=" + c.path("ca.crt"), "--cluster-signing-key-file=" + c.path("ca.key"),
			"--profiling=false",
		},
		scheduler: {
			"--kubeconfig=" + c.path(scheduler+".kubeconfig"),
			"--secure-port=0", "--leader-elect=false",
			"--kube-api-qps=200", "--kube-api-burst=400",
			"--profiling=false",
		},
	}
}
