package iptables

// The tables, and the chains in them.
const (
	mangle, nat, filter = "mangle", "nat", "filter"

	hint     = "KUBE-IPTABLES-HINT"
	firewall = "KUBE-FIREWALL"
	canary   = "KUBE-KUBELET-CANARY"
)

// tables are those with a canary.
func tables() []string { return []string{mangle, nat, filter} }

// rule is a rule of a chain. One that is not there goes to the begin of the chain, or to its end.
type rule struct {
	table, chain string
	first        bool
	spec         []string
}

// family is iptables for IPv4 or IPv6: a program, and what it is to make.
type family struct {
	program string
	chains  [][2]string // table, chain
	rules   []rule
}

// families are both. Only IPv4 lets packets to its loopback addresses in from elsewhere.
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
