{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* A value as a program reads it: Helm keeps numbers as floats and would print 2000000 as 2e+06. */}}
{{- define "addressd-node.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ printf "%.0f" . }}{{ else }}{{ . }}{{ end -}}
{{- end -}}

{{/* The environment: what the chart decides, overridden by what the values say, each name once and in order. */}}
{{- define "addressd-node.environment" -}}
{{- $all := dict
  "ADDRESSD_DAEMONSET" (include "addressd-node.name" .)
  "ALLOW_SWITCH_TO_HOST_NS" (not .Values.ambient.shareHostNetworkNamespace)
  "AMBIENT_DNS_CAPTURE" .Values.ambient.dnsCapture
  "AMBIENT_ENABLED" .Values.ambient.enabled
  "AMBIENT_ENABLEMENT_SELECTOR" (toJson .Values.ambient.enablementSelectors)
  "AMBIENT_IPV6" .Values.ambient.ipv6
  "AMBIENT_RECONCILE_POD_RULES_ON_STARTUP" .Values.ambient.reconcileIptablesOnStartup
  "CLUSTER_ID" (.Values.global.multiCluster.clusterName | default "Kubernetes")
  "EXCLUDE_NAMESPACES" (join "," .Values.excludeNamespaces | default ",")
  "SYSTEM_NAMESPACE" .Values.global.istioNamespace
-}}
{{- if .Values.askControlPlane }}
{{- $_ := set $all "XDS_ADDRESS" (include "addressd-node.xdsAddress" .) }}
{{- $_ := set $all "XDS_ROOT_CA" "/var/run/secrets/istio/root-cert.pem" }}
{{- $_ := set $all "ADDRESSD_TOKEN_FILE" "/var/run/secrets/tokens/istio-token" }}
{{- end -}}
{{- with .Values.network }}{{ $_ := set $all "NETWORK" . }}{{ end -}}
{{- if ne (toString .Values.global.nativeNftables) "" }}{{ $_ := set $all "NATIVE_NFTABLES" .Values.global.nativeNftables }}{{ end -}}
{{- if and .Values.revision (ne .Values.revision "default") }}{{ $_ := set $all "REVISION" .Values.revision }}{{ end -}}
{{- with .Values.nodeOptions }}{{ $_ := set $all "NODE_OPTIONS" . }}{{ end -}}
{{- range $name, $value := .Values.env }}{{ $_ := set $all $name $value }}{{ end -}}
{{- range $name, $value := $all }}
- name: {{ $name }}
  value: {{ include "addressd-node.text" $value | quote }}
{{- end }}
{{- range tuple (list "NODE_NAME" "spec.nodeName") (list "POD_NAME" "metadata.name") (list "POD_NAMESPACE" "metadata.namespace") }}
- name: {{ index . 0 }}
  valueFrom:
    fieldRef:
      fieldPath: {{ index . 1 }}
{{- end }}
{{- end -}}
