{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* A value as a program reads it: Helm keeps numbers as floats and would print 2000000 as 2e+06. */}}
{{- define "addressd.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ printf "%.0f" . }}{{ else }}{{ . }}{{ end -}}
{{- end -}}

{{/* The environment: what the chart decides, overridden by what the values say, each name once and in order. */}}
{{- define "addressd.environment" -}}
{{- $namespace := .Values.trustedZtunnelNamespace | default .Release.Namespace -}}
{{- $all := dict
  "AMBIENT_ENABLE_STATUS" .Values.writeStatus
  "CA_TRUSTED_NODE_ACCOUNTS" (printf "%s/%s" $namespace (.Values.trustedZtunnelName | default "ztunnel"))
  "CLUSTER_ID" (.Values.global.multiCluster.clusterName | default "Kubernetes")
  "PILOT_ENABLE_IP_AUTOALLOCATE" .Values.ipAutoallocate
  "REVISION" (.Values.revision | default "default")
  "ROOT_CA_DIR" "/etc/cacerts"
-}}
{{- with .Values.xdsTrustedAccounts }}{{ $_ := set $all "XDS_TRUSTED_ACCOUNTS" (join "," .) }}{{ end -}}
{{- if .Values.taint.enabled }}{{ $_ := set $all "PILOT_ENABLE_NODE_UNTAINT_CONTROLLERS" true }}{{ end -}}
{{- with .Values.nodeOptions }}{{ $_ := set $all "NODE_OPTIONS" . }}{{ end -}}
{{- if .Values.serviceName }}
{{- /* The name by which clients come must stand in the certificate. */}}
{{- $_ := set $all "ISTIOD_CUSTOM_HOST" (printf "%s.%s.svc" .Values.serviceName .Release.Namespace) }}
{{- end -}}
{{- range $name, $value := .Values.env }}{{ $_ := set $all $name $value }}{{ end -}}
{{- range .Values.envVarFrom }}{{ $_ := unset $all .name }}{{ end -}}
{{- range $name, $value := $all }}
- name: {{ $name }}
  value: {{ include "addressd.text" $value | quote }}
{{- end }}
{{- range tuple (list "POD_NAME" "metadata.name") (list "POD_NAMESPACE" "metadata.namespace") }}
- name: {{ index . 0 }}
  valueFrom:
    fieldRef:
      fieldPath: {{ index . 1 }}
{{- end }}
{{- with .Values.envVarFrom }}
{{ toYaml . }}
{{- end }}
{{- end -}}
