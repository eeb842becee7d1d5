// Package iptables maintains the chains that other programs expect from the kubelet of a node
// (makeIPTablesUtilChains). The kubelet itself does not need them.
//
//	k, err := iptables.New(iptables.Config{Logger: log})
//	err = k.Run(ctx)
//
// The chains, for IPv4 and IPv6:
//
//	mangle  KUBE-IPTABLES-HINT    exists in the variant of iptables, legacy or nft, that this node uses
//	filter  KUBE-FIREWALL         IPv4 only: drops packets to 127.0.0.0/8 from other addresses, unless
//	                              they are replies or were redirected by kube-proxy. INPUT and OUTPUT
//	                              jump to it
//	all     KUBE-KUBELET-CANARY   in mangle, nat and filter: created last, without rules
//
// The canaries are checked once a minute. A flush of the firewall with its chains removes them, and
// then all chains are created again. Existing chains and rules are not changed, and they stay when
// the kubelet exits: they belong to the node, and the next kubelet finds them. The rules are
// identical to those of the reference, so that both kubelets accept the same rules.
//
// On a node without iptables, or without the permission to use it, this is logged once and no
// chains are created.
package iptables
