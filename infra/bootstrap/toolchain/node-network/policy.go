package main

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Cluster is what the rules of one node follow from.
type Cluster struct {
	Node       string
	Subnet     string
	Pods       []*corev1.Pod
	Namespaces []*corev1.Namespace
	Policies   []*networkingv1.NetworkPolicy
}

// Direction is one side of a connection: the match of the other side's address, and what becomes of a match.
type Direction struct {
	name    string
	own     string
	peer    string
	allowed string
}

var (
	// Who may send must still be received: the receiver may be on this node.
	egress  = Direction{"egress", "saddr", "daddr", "goto receive"}
	ingress = Direction{"ingress", "daddr", "saddr", "accept"}
)

// Ruleset is a transaction for nft: one table that replaces the one before.
//
// A Pod that no policy selects has no chain, so what it does is free. Each chain ends with what is not allowed being
// dropped without a word, as by the agents of real clusters: a client whose Pod is not known here yet tries again
// by itself. What the node itself sends to its Pods, the kubelet's probes among it, passes neither hook.
func Ruleset(cluster Cluster) (string, error) {
	pods := make([]*corev1.Pod, 0, len(cluster.Pods))
	for _, pod := range cluster.Pods {
		done := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if !pod.Spec.HostNetwork && pod.Status.PodIP != "" && !done {
			pods = append(pods, pod)
		}
	}
	// One order, whatever the store's: equal rules are not written again. After a node's restart an address may stand
	// in two Pods' status until the kubelet has looked at both; the last one has it here.
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	policies := slices.Clone(cluster.Policies)
	slices.SortFunc(policies, func(a, b *networkingv1.NetworkPolicy) int { return strings.Compare(string(a.UID), string(b.UID)) })
	namespaces := map[string]labels.Set{}
	for _, namespace := range cluster.Namespaces {
		namespaces[namespace.Name] = namespace.Labels
	}
	compiler := compiler{subnet: cluster.Subnet, pods: pods, namespaces: namespaces}

	chains := map[string]string{}
	elements := map[string]map[string]string{egress.name: {}, ingress.name: {}}
	for _, pod := range pods {
		if pod.Spec.NodeName != cluster.Node {
			continue
		}
		for _, direction := range []Direction{egress, ingress} {
			rules, isolated, err := compiler.chain(pod, policies, direction)
			if err != nil {
				return "", err
			}
			if isolated {
				chain := fmt.Sprintf("%s-%s", direction.name, pod.Status.PodIP)
				chains[chain] = rules
				elements[direction.name][pod.Status.PodIP] = chain
			}
		}
	}
	return table(cluster.Subnet, chains, elements), nil
}

func table(subnet string, chains map[string]string, elements map[string]map[string]string) string {
	var text strings.Builder
	text.WriteString("table inet node-network\ndelete table inet node-network\ntable inet node-network {\n")
	for _, direction := range []string{egress.name, ingress.name} {
		fmt.Fprintf(&text, "  map %s {\n    type ipv4_addr : verdict\n", direction)
		if len(elements[direction]) > 0 {
			pairs := make([]string, 0, len(elements[direction]))
			for address, chain := range elements[direction] {
				pairs = append(pairs, fmt.Sprintf("%s : goto %s", address, chain))
			}
			slices.Sort(pairs)
			fmt.Fprintf(&text, "    elements = { %s }\n", strings.Join(pairs, ", "))
		}
		text.WriteString("  }\n")
	}
	names := make([]string, 0, len(chains))
	for name := range chains {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&text, "  chain %s {\n%s    drop\n  }\n", name, chains[name])
	}
	fmt.Fprintf(&text, `  chain receive {
    ip daddr vmap @ingress
    accept
  }
  chain forward {
    type filter hook forward priority filter; policy accept;
    ct state established,related accept
    ip saddr vmap @egress
    ip daddr vmap @ingress
  }
  chain input {
    type filter hook input priority filter; policy accept;
    ct state established,related accept
    ip saddr vmap @egress
  }
  chain postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr %[1]s ip daddr != %[1]s masquerade
  }
}
`, subnet)
	return text.String()
}

type compiler struct {
	subnet     string
	pods       []*corev1.Pod
	namespaces map[string]labels.Set
}

// chain is what the policies that select this Pod allow in one direction, and whether any does select it.
func (c compiler) chain(pod *corev1.Pod, policies []*networkingv1.NetworkPolicy, direction Direction) (string, bool, error) {
	isolated := false
	var text strings.Builder
	// No policy keeps a Pod from itself.
	line(&text, direction.allowed, fmt.Sprintf("ip %s %s", direction.peer, pod.Status.PodIP))
	for _, policy := range policies {
		if policy.Namespace != pod.Namespace || !selects(&policy.Spec.PodSelector, pod.Labels) {
			continue
		}
		for _, allowed := range sides(policy, direction) {
			isolated = true
			if allowed == nil {
				continue
			}
			peers, err := c.peers(allowed.peers, policy.Namespace, direction)
			if err != nil {
				return "", false, fmt.Errorf("%s/%s: %w", policy.Namespace, policy.Name, err)
			}
			for _, peer := range peers {
				for _, port := range c.ports(allowed.ports, pod, direction) {
					line(&text, direction.allowed, peer, port)
				}
			}
		}
	}
	return text.String(), isolated, nil
}

func line(text *strings.Builder, verdict string, matches ...string) {
	words := slices.DeleteFunc(append(matches, verdict), func(word string) bool { return word == "" })
	fmt.Fprintf(text, "    %s\n", strings.Join(words, " "))
}

type rule struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

// sides is what a policy says of one direction: nothing, or that it isolates (nil), and then each of its rules.
func sides(policy *networkingv1.NetworkPolicy, direction Direction) []*rule {
	types := policy.Spec.PolicyTypes
	outwards := slices.Contains(types, networkingv1.PolicyTypeEgress) || len(types) == 0 && len(policy.Spec.Egress) > 0
	inwards := slices.Contains(types, networkingv1.PolicyTypeIngress) || len(types) == 0
	var found []*rule
	switch {
	case direction == egress && outwards:
		found = append(found, nil)
		for _, each := range policy.Spec.Egress {
			found = append(found, &rule{each.To, each.Ports})
		}
	case direction == ingress && inwards:
		found = append(found, nil)
		for _, each := range policy.Spec.Ingress {
			found = append(found, &rule{each.From, each.Ports})
		}
	}
	return found
}

// peers is one match for each way to be a peer; an empty match is anybody, no match nobody.
func (c compiler) peers(peers []networkingv1.NetworkPolicyPeer, namespace string, direction Direction) ([]string, error) {
	if len(peers) == 0 {
		return []string{""}, nil
	}
	var matches, addresses []string
	for _, peer := range peers {
		if block := peer.IPBlock; block != nil {
			if strings.Contains(block.CIDR, ":") {
				continue
			}
			match := fmt.Sprintf("ip %s %s", direction.peer, block.CIDR)
			// Not one set: exceptions may overlap, members of a set may not.
			for _, except := range block.Except {
				match += fmt.Sprintf(" ip %s != %s", direction.peer, except)
			}
			matches = append(matches, match)
			continue
		}
		if everybody(peer) {
			// The same as every Pod's address, and true of a Pod whose address is not in its status yet.
			matches = append(matches, fmt.Sprintf("ip %s %s", direction.peer, c.subnet))
			continue
		}
		for _, pod := range c.pods {
			if c.is(peer, namespace, pod) {
				addresses = append(addresses, pod.Status.PodIP)
			}
		}
	}
	if len(addresses) > 0 {
		slices.Sort(addresses)
		matches = append(matches, fmt.Sprintf("ip %s %s", direction.peer, set(slices.Compact(addresses))))
	}
	return matches, nil
}

func everybody(peer networkingv1.NetworkPolicyPeer) bool {
	empty := func(selector *metav1.LabelSelector) bool {
		return selector != nil && len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 0
	}
	return empty(peer.NamespaceSelector) && (peer.PodSelector == nil || empty(peer.PodSelector))
}

func (c compiler) is(peer networkingv1.NetworkPolicyPeer, namespace string, pod *corev1.Pod) bool {
	if peer.NamespaceSelector == nil && pod.Namespace != namespace {
		return false
	}
	if peer.NamespaceSelector != nil && !selects(peer.NamespaceSelector, c.namespaces[pod.Namespace]) {
		return false
	}
	return peer.PodSelector == nil || selects(peer.PodSelector, pod.Labels)
}

// ports is one match for each port; an empty match is any, no match none. A name is looked up where the connection
// ends: at this Pod for what comes in, at each other one for what goes out.
func (c compiler) ports(ports []networkingv1.NetworkPolicyPort, pod *corev1.Pod, direction Direction) []string {
	if len(ports) == 0 {
		return []string{""}
	}
	var matches []string
	for _, port := range ports {
		protocol := corev1.ProtocolTCP
		if port.Protocol != nil {
			protocol = *port.Protocol
		}
		word := strings.ToLower(string(protocol))
		switch {
		case port.Port == nil:
			matches = append(matches, "meta l4proto "+word)
		case port.Port.Type == intstr.Int && port.EndPort != nil:
			matches = append(matches, fmt.Sprintf("%s dport %d-%d", word, port.Port.IntVal, *port.EndPort))
		case port.Port.Type == intstr.Int:
			matches = append(matches, fmt.Sprintf("%s dport %d", word, port.Port.IntVal))
		case direction == ingress:
			for _, number := range numbers(pod, port.Port.StrVal, protocol) {
				matches = append(matches, fmt.Sprintf("%s dport %d", word, number))
			}
		default:
			var pairs []string
			for _, other := range c.pods {
				for _, number := range numbers(other, port.Port.StrVal, protocol) {
					pairs = append(pairs, fmt.Sprintf("%s . %d", other.Status.PodIP, number))
				}
			}
			if len(pairs) > 0 {
				slices.Sort(pairs)
				matches = append(matches, fmt.Sprintf("ip daddr . %s dport %s", word, set(slices.Compact(pairs))))
			}
		}
	}
	return matches
}

func numbers(pod *corev1.Pod, name string, protocol corev1.Protocol) []int32 {
	var found []int32
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			same := port.Protocol == protocol || port.Protocol == "" && protocol == corev1.ProtocolTCP
			if port.Name == name && same {
				found = append(found, port.ContainerPort)
			}
		}
	}
	return found
}

func set(words []string) string { return "{ " + strings.Join(words, ", ") + " }" }

func selects(selector *metav1.LabelSelector, given map[string]string) bool {
	// The API server has refused selectors that do not parse.
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(given))
}
