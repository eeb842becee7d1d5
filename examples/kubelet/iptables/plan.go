package iptables

// Tables, and the chains in them.
const (
	mangle, nat, filter = "mangle", "nat", "filter"

	hint     = "KUBE-IPTABLES-HINT"
	firewall = "KUBE-FIREWALL"
	canary   = "KUBE-KUBELET-CANARY"
)

// tables returns the tables with a canary.
func tables() []string { return []string{mangle, nat, filter} }

// rule is a rule of a chain. A missing rule is inserted first in the chain or appended.
type rule struct {
	table, chain string
	first        bool
	spec         []string
}

type family struct {
	program string
	chains  [][2]string // table, chain
	rules   []rule
}

// families returns both families. Only IPv4 needs the firewall chain: IPv6 does not accept packets
// to its loopback address from outside.
func families() []family {
	hints := [2]string{mangle, hint}
	jump := []string{"-j", firewall}
	return []family{
		{program: "iptables", chains: [][2]string{hints, {filter, firewall}}, rules: []rule{
			{table: filter, chain: "OUTPUT", first: true, spec: jump},
			{table: filter, chain: "INPUT", first: true, spec: jump},
			{table: filter, chain: firewall, spec: []string{
				"-m", "comment", "--comment", "block incoming localnet connections",
				"--dst", "127.0.0.0/8", "!", "--src", "127.0.0.0/8",
				"-m", "conntrack", "!", "--ctstate", "RELATED,ESTABLISHED,DNAT", "-j", "DROP",
			}},
		}},
		{program: "ip6tables", chains: [][2]string{hints}},
	}
}
